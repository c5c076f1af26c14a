//! Environment variables in values.

use althing_config::{BACKENDS, ConfigReport, LoadPurpose, Source, Variables, load_config, load_config_with};
use althing_protocol::{McpTransport, Secret};

use super::support::{env, messages, with};

fn run(text: &str, variables: &[(&str, &str)]) -> ConfigReport {
    load_config(Source { name: "team.yaml", text }, &env(variables), LoadPurpose::Run)
}

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

#[test]
fn variables_of_others_give_secrets_and_decide_nothing_else() {
    let text = r#"
agents:
  - id: a
    system_message: "${WORD:-own}"
    backend:
      type: chatcompletion
      model: "${MODEL:-own}"
      base_url: "${URL:-https://own.example/v1}"
      api_key: "${WORD}"
      extra_headers: {Authorization: "Bearer ${WORD}", x-route: "${WORD:-own}"}
      mcp_servers:
        - name: s
          command: "${PROGRAM:-own}"
          args: ["${WORD:-own}"]
          cwd: "${DIR:-own}"
          env: {GITHUB_TOKEN: "${WORD}", NODE_OPTIONS: "${WORD:-own}", SECRET_SERVICE_URL: "${URL:-own}", HOME_PATH: "${WORD:-own}"}
"#;
    let found =
        |name: &str| Some(if name == "URL" { "https://stranger.example/v1" } else { "stranger" }.to_owned());
    let variables = Variables { own: &|_| None, for_secrets: &found };
    let report = load_config_with(&BACKENDS, Source { name: "team.yaml", text }, variables, LoadPurpose::Run);
    assert_eq!(messages(&report), Vec::<String>::new());
    let agent = report.config.expect("settings").config.agents.remove(0);
    let backend = &agent.backend;
    assert_eq!(agent.system_message.as_deref(), Some("own"));
    assert_eq!(
        (backend.model.as_deref(), backend.base_url.as_deref()),
        (Some("own"), Some("https://own.example/v1"))
    );
    assert_eq!(backend.api_key.as_ref().map(Secret::reveal), Some("stranger"));
    let headers: Vec<(&str, &str)> =
        backend.headers.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    assert_eq!(headers, [("Authorization", "Bearer stranger"), ("x-route", "own")]);
    let McpTransport::Stdio { command, args, env, cwd } = &agent.tools.mcp_servers[0].transport else {
        panic!("{agent:?}")
    };
    assert_eq!(
        (command.as_str(), args.as_slice(), cwd.as_deref()),
        ("own", &["own".to_owned()][..], Some("own"))
    );
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    let expected = [
        ("GITHUB_TOKEN", "stranger"),
        ("NODE_OPTIONS", "own"),
        ("SECRET_SERVICE_URL", "own"),
        ("HOME_PATH", "own"),
    ];
    assert_eq!(env, expected);
    // Variables that somebody else set determine no address.
    let text = "agents: [{id: a, backend: {type: azure_openai, model: m}}]";
    let report = load_config_with(&BACKENDS, Source { name: "team.yaml", text }, variables, LoadPurpose::Run);
    let [problem] = messages(&report).try_into().expect("one problem");
    assert!(problem.contains("AZURE_OPENAI_ENDPOINT"), "{problem}");
}

#[test]
fn variables_of_others_are_no_paths_addresses_or_programs_of_a_server() {
    for (name, is_used) in [
        ("GITHUB_TOKEN", true),
        ("OPENAI_API_KEY", true),
        ("OPENAI_API_KEY_2", true),
        ("BRAVE_APIKEY", true),
        ("AWS_SECRET_ACCESS_KEY", true),
        ("LANGFUSE_SECRET_KEY", true),
        ("PGPASSWORD", true),
        ("DB_PASSWORD", true),
        ("CLIENT_SECRET", true),
        ("JIRA_PAT", true),
        ("GOOGLE_APPLICATION_CREDENTIALS", false),
        ("SENTRY_DSN", false),
        ("RESTIC_PASSWORD_COMMAND", false),
        ("GIT_CONFIG_KEY_0", false),
        ("SSH_PRIVATE_KEY", false),
        ("KEY", false),
        ("GIT_ASKPASS", false),
        ("SECRET_SERVICE", false),
        ("PASSWORD_STORE", false),
    ] {
        let text = format!(
            "agents: [{{id: a, backend: {{type: offline, mcp_servers: [{{name: s, command: c, env: {{{name}: '${{WORD:-own}}'}}}}]}}}}]"
        );
        let found = |_: &str| Some("stranger".to_owned());
        let variables = Variables { own: &|_| None, for_secrets: &found };
        let source = Source { name: "team.yaml", text: &text };
        let report = load_config_with(&BACKENDS, source, variables, LoadPurpose::Run);
        let agent = report.config.expect("settings").config.agents.remove(0);
        let McpTransport::Stdio { env, .. } = &agent.tools.mcp_servers[0].transport else {
            panic!("{agent:?}")
        };
        assert_eq!(env[0].1.reveal(), if is_used { "stranger" } else { "own" }, "{name}");
    }
}

#[test]
fn a_key_of_the_user_is_preferred_to_a_found_one_under_another_name() {
    let own = |name: &str| (name == "GOOGLE_API_KEY").then(|| "of-the-user".to_owned());
    let all =
        |name: &str| own(name).or_else(|| (name == "GEMINI_API_KEY").then(|| "of-a-stranger".to_owned()));
    let text = "agents: [{id: a, backend: {type: gemini}}]";
    let variables = Variables { own: &own, for_secrets: &all };
    let report = load_config_with(&BACKENDS, Source { name: "team.yaml", text }, variables, LoadPurpose::Run);
    let agent = report.config.expect("settings").config.agents.remove(0);
    assert_eq!(agent.backend.api_key.as_ref().map(Secret::reveal), Some("of-the-user"));
}
