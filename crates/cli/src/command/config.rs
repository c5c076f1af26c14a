//! `althing config check | init | schema`.

use crate::args::{ConfigAction, Options};
use crate::exit::Exit;
use crate::show::{self, print, print_json};
use althing_app::AppContext;
use althing_app::Failure;
use althing_app::base_dirs::BaseDirs;
use althing_app::detect_backends;
use althing_app::team;
use althing_app::trust::Trust;
use althing_config::{ConfigReport, DetectedBackends, LoadPurpose};
use std::io::Write;
use std::path::{Path, PathBuf};

pub fn run(options: &Options, action: ConfigAction, app: &AppContext) -> Result<Exit, Failure> {
    match action {
        ConfigAction::Check { files, strict } => {
            let check_text = |name: &str, text: &str| {
                let (report, notice) = team::check(name, text, &app.environment, LoadPurpose::Check);
                if let Some(notice) = notice {
                    app.notify(&notice);
                }
                report
            };
            Ok(check(&files, options.json, strict, app, &check_text))
        }
        ConfigAction::Init { file, force } => {
            let from = BaseDirs::of(&app.environment);
            let real = from.real_path(&file.display().to_string(), &file)?;
            // Without `--force`, the path is not resolved: a link there counts as an existing file, even if it is dangling.
            print(&init(&if force { real } else { from.path(&file) }, force, app)?);
            Ok(Exit::Answered)
        }
        ConfigAction::Schema { workflow } => {
            let schema = if workflow { althing_config::workflow_schema() } else { althing_config::schema() };
            print(&format!("{schema:#}"));
            Ok(Exit::Answered)
        }
    }
}

pub fn check(
    files: &[PathBuf],
    json: bool,
    strict: bool,
    app: &AppContext,
    check_text: &dyn Fn(&str, &str) -> ConfigReport,
) -> Exit {
    let (mut reports, mut all_valid) = (Vec::new(), true);
    for file in files {
        let name = file.display().to_string();
        // A file that cannot be read must not stop the check of the others.
        let (valid, report) = match team::read_config(&app.environment.cwd.join(file)) {
            Err(failure) => {
                if !json {
                    show::failure(&failure);
                }
                (false, unreadable(&name, &failure))
            }
            Ok(text) => {
                let report = check_text(&name, &text);
                if !json {
                    show::problems(&report);
                    let summary = summary(report.errors.len(), report.warnings.len(), strict);
                    print(&format!("{name}: {summary}"));
                }
                (report.is_valid() && (!strict || report.warnings.is_empty()), report.to_json())
            }
        };
        all_valid &= valid;
        reports.push(report);
    }
    if json {
        let one = if reports.len() == 1 { reports.pop() } else { None };
        print_json(&one.unwrap_or(serde_json::Value::Array(reports)).to_string());
    }
    if all_valid { Exit::Answered } else { Exit::Usage }
}

fn unreadable(name: &str, failure: &Failure) -> serde_json::Value {
    let error = serde_json::json!({
        "message": failure.message, "location": "", "line": 0, "column": 0, "suggestion": failure.hints.first(),
    });
    serde_json::json!({"file": name, "valid": false, "errors": [error], "warnings": []})
}

fn summary(errors: usize, warnings: usize, strict: bool) -> String {
    let count = |n: usize, what: &str| althing_text::count(n as u64, what);
    match (errors, warnings) {
        (0, 0) => "ok".into(),
        (0, n) if strict => format!("{}, which --strict does not allow", count(n, "warning")),
        (0, n) => format!("ok, {}", count(n, "warning")),
        (n, 0) => count(n, "error"),
        (n, m) => format!("{}, {}", count(n, "error"), count(m, "warning")),
    }
}

pub fn init(file: &Path, force: bool, app: &AppContext) -> Result<String, Failure> {
    let found = if app.settings.offline {
        DetectedBackends::default()
    } else {
        detect_backends::detect_backends(&app.environment)
    };
    let text = althing_config::starter_config(&found);
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::usage(format!("{} already exists", file.display()))
            .hint("name another file, or replace this one with --force"),
        _ => Failure::usage(format!("{} cannot be written: {error}", file.display()))
            .hint("name a file that can be written"),
    };
    let create = |file: &Path| {
        let new = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
        new.and_then(|mut file| file.write_all(text.as_bytes()))
    };
    if force {
        // A link in place of the file is replaced, not followed.
        let new = file.with_extension(format!("{}.new", std::process::id()));
        create(&new).and_then(|()| std::fs::rename(&new, file)).map_err(failed)?;
    } else {
        create(file).map_err(failed)?;
    }
    // The user asked for this file, so it is trusted. If the trust cannot be stored now, the user is asked for
    // `--trust` later.
    let path = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let _ = Trust { path: &path, digest: &team::digest(&text) }.give(&app.environment);
    for unusable in found.unusable() {
        app.notify(&unusable);
    }
    let what = match found.len() {
        0 => "three agents of the offline model".to_owned(),
        1 => "one agent".to_owned(),
        n => format!("{n} agents"),
    };
    Ok(format!(
        "wrote {} with {what}; check it with `althing config check {}`",
        file.display(),
        file.display()
    ))
}
