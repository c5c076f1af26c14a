//! What the tests share: an environment of given variables, and short ways to check a text.

use althing_config::{Diagnostic, Loaded, Purpose, Report, Source, check};

/// A lookup over the given variables and no others.
pub(crate) fn env<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

/// Checks a text with nothing in the environment.
pub(crate) fn checked(text: &str) -> Report {
    check(Source { name: "team.yaml", text }, &env(&[]), Purpose::Check)
}

/// Checks a text that must be right, without a warning.
pub(crate) fn loaded(text: &str) -> Loaded {
    let report = checked(text);
    assert_eq!(messages(&report), Vec::<String>::new());
    report.config.expect("settings")
}

/// Every problem as one line: severity, place, message, suggestion.
pub(crate) fn messages(report: &Report) -> Vec<String> {
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

/// A config with one offline agent, and `more` behind it.
pub(crate) fn with(more: &str) -> String {
    format!("agents:\n  - id: a\n    backend: {{type: offline}}\n{more}")
}

/// A config with one agent whose backend is the given flow map.
pub(crate) fn backend(flow: &str) -> String {
    format!("agents:\n  - id: a\n    backend: {flow}\n")
}
