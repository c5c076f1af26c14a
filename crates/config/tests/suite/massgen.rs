//! Every config that MassGen ships must load without an error. `ALTHING_MASSGEN_CONFIGS` names their directory
//! (`massgen/configs` of MassGen's wheel). Without it nothing is tested, which is a failure with `CI=true`.

use std::path::{Path, PathBuf};

use althing_config::{ConfigReport, LoadPurpose, Source, load_config};

use super::support::env;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read its own input")]
fn every_config_that_massgen_ships_loads_without_an_error() {
    let Some(directory) = std::env::var_os("ALTHING_MASSGEN_CONFIGS") else {
        let why = "ALTHING_MASSGEN_CONFIGS is not set: see scripts/setup";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why} (with CI=true, no test may be skipped)");
        println!("skipped: {why}");
        return;
    };
    let mut checked = 0;
    let mut failed = Vec::new();
    for path in yaml_files(Path::new(&directory)) {
        let text = std::fs::read_to_string(&path).expect("readable");
        if !text.lines().any(|line| line.trim_start().starts_with("agent")) {
            println!("not a config: {}", path.display());
            continue;
        }
        let name = path.display().to_string();
        checked += 1;
        let report = load_config(Source { name: &name, text: &text }, &env(&[]), LoadPurpose::Check);
        judge(&name, &report, &mut failed);
        if std::env::var_os("ALTHING_MASSGEN_SHOW").is_some() {
            println!("{}", report.render(althing_config::Style::Plain));
        }
    }
    assert!(failed.is_empty(), "{} of {checked} failed:\n{}", failed.len(), failed.join("\n"));
    println!("{checked} configs load without an error");
    assert!(checked >= 275, "only {checked} configs in {}", Path::new(&directory).display());
}

fn judge(name: &str, report: &ConfigReport, failed: &mut Vec<String>) {
    if !report.is_valid() {
        failed.push(report.render(althing_config::Style::Plain));
    }
    let mut seen: Vec<String> = Vec::new();
    for warning in report.warnings.iter().filter(|warning| warning.message.contains("has no effect")) {
        let key: String = warning.location.chars().filter(|c| !c.is_ascii_digit()).collect();
        assert!(!seen.contains(&key), "{name}: two warnings about {key}");
        seen.push(key);
    }
}

fn yaml_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in directory.read_dir().expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
