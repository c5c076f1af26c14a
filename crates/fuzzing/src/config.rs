//! Configs, workflows and `.env` files from untrusted sources: the report is deterministic and its positions exist.

use althing_config::{
    ConfigReport, LoadPurpose, Source, Style, Variables, WorkflowContext, load_config, load_workflow,
    parse_dotenv, redact,
};
use althing_protocol::AGENT_KINDS;

/// The maximum number of reported problems of each severity, plus the one that counts the omitted ones.
const MOST_PROBLEMS: usize = 201;
const LONGEST_QUOTE: usize = 160;

pub(crate) fn check(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    for purpose in [LoadPurpose::Check, LoadPurpose::Run] {
        let report = || load_config(Source { name: "x.yaml", text }, &env, purpose);
        let found = report();
        assert_eq!(found.is_valid(), found.config.is_some());
        check_report(text, &found);
        let again = report();
        assert_eq!((&again.errors, &again.warnings), (&found.errors, &found.warnings));
        assert_eq!(
            again.config.map(|loaded| format!("{:?}", loaded.config)),
            found.config.map(|loaded| format!("{:?}", loaded.config))
        );
    }
    let context = WorkflowContext {
        purpose: LoadPurpose::Check,
        cwd: "/home/me",
        env: Variables::all_own(&env),
        kinds: AGENT_KINDS,
        custom: &[],
        agents: &[],
    };
    let (workflow, report) = load_workflow(Source { name: "x.yaml", text }, &context);
    assert_eq!(report.is_valid(), workflow.is_some());
    check_report(text, &report);

    let redacted = redact(text);
    assert_eq!(redact(&redacted), redacted, "what is redacted is redacted once more");
    for (name, value) in parse_dotenv(text) {
        assert!(!name.is_empty() && name.len() + value.len() <= text.len(), "{name:?}");
    }
}

fn env(name: &str) -> Option<String> {
    match name {
        "X" => Some("x".to_owned()),
        "OPENAI_API_KEY" => Some("sk-0123456789abcdef".to_owned()),
        _ => None,
    }
}

fn check_report(text: &str, report: &ConfigReport) {
    let lines: Vec<&str> = text.split('\n').collect();
    assert!(report.errors.len() <= MOST_PROBLEMS && report.warnings.len() <= MOST_PROBLEMS);
    for one in report.errors.iter().chain(&report.warnings) {
        assert!((1..=lines.len() + 1).contains(&one.line), "line {} of {}", one.line, lines.len());
        let line = lines.get(one.line - 1).copied().unwrap_or_default();
        assert!((1..=line.chars().count() + 1).contains(&one.column), "{one:?}");
        let quoted = one.source_line.chars().count();
        assert!(one.caret >= 1 && one.caret <= quoted + 1 && one.width >= 1, "{one:?}");
        assert!(quoted <= LONGEST_QUOTE + 8, "{one:?}");
        assert!(!one.message.is_empty() && !one.source_line.contains('\n'), "{one:?}");
        let acts = |c: char| c.is_control() && c != '\t';
        assert!(!one.source_line.contains(acts), "{one:?}");
    }
    let _ = report.to_json();
    let _ = report.render(Style::Plain);
    let colored = report.render(Style::Color);
    assert!(report.is_valid() || !colored.is_empty());
}
