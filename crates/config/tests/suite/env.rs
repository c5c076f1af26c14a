//! Environment variables in values.

use althing_config::{ConfigReport, LoadPurpose, Source, load_config};

use super::support::{env, messages, with};

fn run(text: &str, variables: &[(&str, &str)]) -> ConfigReport {
    load_config(Source { name: "team.yaml", text }, &env(variables), LoadPurpose::Run)
}

/// The system message of the only agent, with variables substituted.
fn message(written: &str, variables: &[(&str, &str)]) -> String {
    let text =
        format!("agents:\n  - id: a\n    system_message: '{written}'\n    backend: {{type: offline}}\n");
    let report = run(&text, variables);
    assert_eq!(messages(&report), Vec::<String>::new());
    report.config.expect("settings").config.agents[0].system_message.clone().expect("a message")
}

#[test]
fn a_variable_is_replaced_by_its_value_or_its_default() {
    let variables = [("NAME", "Ada"), ("EMPTY", "")];
    assert_eq!(message("Hi ${NAME}, ${NAME}!", &variables), "Hi Ada, Ada!");
    assert_eq!(message("${NONE:-nobody} ${EMPTY:-nothing} ${NAME:-x}", &variables), "nobody nothing Ada");
    assert_eq!(message("[${EMPTY}] [${NONE:-}]", &variables), "[] []");
}

#[test]
fn other_dollars_stay_and_a_doubled_one_is_an_escape() {
    for same in ["$5", "$NAME", "$$", "${}", "${1}", "${a b}", "${", "cost: $", "${x.y}"] {
        assert_eq!(message(same, &[("NAME", "Ada")]), same);
    }
    assert_eq!(message("$${NAME} and ${NAME}", &[("NAME", "Ada")]), "${NAME} and Ada");
}

#[test]
fn a_value_is_never_read_as_yaml_or_substituted_again() {
    let evil = "x\n  - id: evil\n    backend: {type: offline}";
    assert_eq!(message("${EVIL}", &[("EVIL", evil)]), evil);
    assert_eq!(message("${A}", &[("A", "${B}"), ("B", "secret")]), "${B}");
}

#[test]
fn a_number_or_boolean_may_come_from_a_variable() {
    let text = with(
        "orchestrator: {skip_voting: \"${SKIP}\", max_new_answers_per_agent: \"${MOST}\"}\ntimeout_settings: {orchestrator_timeout_seconds: \"${LIMIT:-90}\"}\n",
    );
    let rules = run(&text, &[("SKIP", "true"), ("MOST", "4")]).config.expect("settings").config.rules;
    assert_eq!(
        (rules.skip_voting, rules.max_new_answers_per_agent, rules.limits.orchestrator.0),
        (true, Some(4), 90_000)
    );
    let wrong = run(&text, &[("SKIP", "hunter2"), ("MOST", "4")]);
    assert_eq!(
        wrong.errors[0].message,
        "`skip_voting` must be `true` or `false`, not the value of the variable"
    );
}

#[test]
fn an_unset_variable_is_a_warning_for_the_file_and_an_error_for_a_run() {
    let text = "agents:\n  - id: a\n    backend: {type: chatcompletion, model: m, base_url: '${WHERE}', extra_body: {a: ['${DEEP}']}}\n";
    let expected = [
        ("agents[0].backend.base_url", "the environment variable `WHERE` is not set"),
        ("agents[0].backend.extra_body.a[0]", "the environment variable `DEEP` is not set"),
    ];
    let judged = load_config(Source { name: "team.yaml", text }, &env(&[]), LoadPurpose::Check);
    let found: Vec<_> =
        judged.warnings.iter().map(|one| (one.location.as_str(), one.message.as_str())).collect();
    assert_eq!(found, expected);
    let report = run(text, &[]);
    let found: Vec<_> =
        report.errors.iter().map(|one| (one.location.as_str(), one.message.as_str())).collect();
    assert_eq!(found, expected);
    assert_eq!(
        report.errors[0].suggestion.as_deref(),
        Some("set it, or give a default: `${WHERE:-…}`; `$${WHERE}` is the literal text")
    );
}

#[test]
fn an_unset_variable_under_an_unsupported_key_is_ignored() {
    let text = "agents:\n  - id: a\n    backend: {type: offline, output_schema: {title: '${NOT_SET}'}}\n";
    let report = run(text, &[]);
    assert!(report.is_valid());
    assert_eq!(report.warnings.len(), 1);
}
