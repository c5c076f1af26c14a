//! What the tests share: an environment of given variables, and shortcuts to check a text.

use althing_config::{ConfigReport, Diagnostic, LoadPurpose, LoadedConfig, Source, load_config};

pub(crate) fn env<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

pub(crate) fn checked(text: &str) -> ConfigReport {
    load_config(Source { name: "team.yaml", text }, &env(&[]), LoadPurpose::Check)
}

pub(crate) fn loaded(text: &str) -> LoadedConfig {
    let report = checked(text);
    assert_eq!(messages(&report), Vec::<String>::new());
    report.config.expect("settings")
}

pub(crate) fn messages(report: &ConfigReport) -> Vec<String> {
    let line = |diagnostic: &Diagnostic| {
        format!(
            "{:?} {}:{} {} | {} | {}",
            diagnostic.severity,
            diagnostic.line,
            diagnostic.column,
            diagnostic.location,
            diagnostic.message,
            diagnostic.suggestion.as_deref().unwrap_or("-")
        )
    };
    report.errors.iter().chain(&report.warnings).map(line).collect()
}

pub(crate) fn with(more: &str) -> String {
    format!("agents:\n  - id: a\n    backend: {{type: offline}}\n{more}")
}

pub(crate) fn backend(flow: &str) -> String {
    format!("agents:\n  - id: a\n    backend: {flow}\n")
}
