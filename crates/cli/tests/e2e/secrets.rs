//! Secrets never leak (row S6 of docs/reliability.md): they are in no file that Althing writes, and not on stdout or
//! stderr, even if a model or provider repeats them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use althing_testkit::collector::{Collector, CollectorReply};
use althing_testkit::{
    Action, Althing, FakeModel, Output, Parliament, RecordedRequest, Reply, Script, ToolCall,
};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{Fixture, LIMIT, SKY, Team, althing, files_below, items, paths_below, run};

/// Environment variables, each with a canary: a secret that must not leak. The last has characters that JSON escapes.
const ENVIRONMENT: [(&str, &str); 11] = [
    ("OPENAI_API_KEY", "sk-canary-01-environment"),
    ("GROQ_API_KEY", "gsk_canary_02_environment"),
    ("DEPLOY_TOKEN", "canary-03-token"),
    ("SIGNING_SECRET", "canary-04-secret"),
    ("DATABASE_PASSWORD", "canary-05-password"),
    ("CLOUD_CREDENTIALS", "canary-06-credentials"),
    ("HEADER_TOKEN", "canary-07-used-in-a-header"),
    ("BLUE_HORSE", "canary-08-used-as-a-key"),
    ("deploy/token", "canary-21-odd-name-1"),
    ("1PASSWORD TOKEN ü", "canary-22-odd-name-2"),
    ("ODD_KEY", "canary-09-\"quoted\"\\and/æøå"),
];
const DOTENV: [(&str, &str); 8] = [
    ("TEAM_KEY", "canary-10-dotenv-key"),
    ("GREEN_HORSE", "canary-11-dotenv-used-as-a-key"),
    ("REFRESH_TOKEN", "canary-12-dotenv-token"),
    // Other programs accept such names, and use the last value of a name that is set twice.
    ("team/token", "canary-23-dotenv-slash"),
    ("MY KEY", "canary-24-dotenv-space"),
    ("1PASSWORD_TOKEN", "canary-25-dotenv-digit"),
    ("REFRESH_TOKEN", "canary-26-dotenv-second"),
    ("SLASH_TOKEN", "cAnary/27-dotenv.with/slash"),
];
const USERS_DOTENV: [(&str, &str); 2] =
    [("XAI_API_KEY", "xai-canary-13-users-dotenv"), ("DEPLOY_TOKEN", "canary-28-users-dotenv-not-used")];
/// Secrets in the config itself. The last one is in a comment, so it is never sent to anyone.
const IN_CONFIG: [&str; 7] = [
    "canary-14-api-key-in-the-config",
    "canary-15-authorization-header",
    "canary-16-x-api-key-header",
    "canary-17-mcp-server-token",
    "canary-18-password-in-the-address",
    "canary-19-extra-body-token",
    "canary-20-commented-out-key",
];

fn canaries() -> Vec<&'static str> {
    let named = ENVIRONMENT.iter().chain(&DOTENV).chain(&USERS_DOTENV).map(|(_, value)| *value);
    named.chain(IN_CONFIG).collect()
}

fn all_canaries() -> String {
    let mut all = canaries();
    all.pop();
    format!("{}\n{}\n", all.join("\n"), json!(all))
}

fn config(server: &FakeModel) -> String {
    let address = server.base_url();
    let with_password = address.replacen("http://", &format!("http://user:{}@", IN_CONFIG[4]), 1);
    let mut config: Value = serde_json::from_str(
        &Team::on(&address, 3)
            .backend(0, "api_key", "${BLUE_HORSE}")
            .backend(0, "extra_headers", json!({"x-mine": "${HEADER_TOKEN}", "x-api-key": IN_CONFIG[2]}))
            .backend(
                0,
                "mcp_servers",
                json!([{"name": "m", "command": "true", "env": {"GITHUB_TOKEN": IN_CONFIG[3]}}]),
            )
            .backend(1, "api_key", IN_CONFIG[0])
            .backend(1, "extra_body", json!({"token": IN_CONFIG[5]}))
            .backend(1, "default_headers", json!({"Authorization": format!("Bearer {}", IN_CONFIG[1])}))
            .backend(2, "api_key", "${GREEN_HORSE}")
            .text(),
    )
    .unwrap();
    config["agents"][2]["backend"]["base_url"] = with_password.into();
    format!("# old: api_key: {}\n{config:#}", IN_CONFIG[6])
}

fn with_canaries(server: &FakeModel) -> Althing {
    let lines = |pairs: &[(&str, &str)]| -> String {
        pairs.iter().map(|(name, value)| [name, "=", value, "\n"].concat()).collect()
    };
    let althing = althing();
    althing.file("team.yaml", config(server));
    althing.file(".env", lines(&DOTENV));
    let users = althing.home_dir().join(".config/althing");
    std::fs::create_dir_all(&users).unwrap();
    std::fs::write(users.join(".env"), lines(&USERS_DOTENV)).unwrap();
    ENVIRONMENT.iter().fold(althing, |althing, (name, value)| althing.env(name, value))
}

fn canaries_in(text: &[u8]) -> Vec<&'static str> {
    let text = String::from_utf8_lossy(text);
    let escaped = |canary: &str| json!(canary).to_string().trim_matches('"').to_owned();
    canaries().into_iter().filter(|canary| text.contains(canary) || text.contains(&escaped(canary))).collect()
}

#[track_caller]
fn assert_no_canary(what: &str, text: &[u8]) {
    let canaries_in = canaries_in(text);
    assert!(canaries_in.is_empty(), "{what} holds {canaries_in:?}:\n{}", String::from_utf8_lossy(text));
}

#[track_caller]
fn assert_no_canary_anywhere(output: &Output, state: &Path) {
    assert_no_canary("stdout", output.stdout.as_bytes());
    assert_no_canary("stderr", output.stderr.as_bytes());
    let files = files_below(state);
    assert!(files.iter().any(|(path, _)| path.ends_with("events.jsonl")), "there is a log to look at");
    for (path, content) in files {
        assert_no_canary(&path.display().to_string(), &content);
        assert_no_canary("a file's name", path.display().to_string().as_bytes());
    }
}

fn echoing_models() -> Script {
    Script::from_fn(|request: &RecordedRequest| {
        if request.tool_names().contains(&"vote") {
            Reply::vote("agent1", &all_canaries()).reasoning(all_canaries())
        } else if request.tool_names().contains(&"new_answer") {
            Reply::new_answer(&format!("{}{}", request.model(), all_canaries())).and_text(all_canaries())
        } else {
            Reply::text(format!("The end. {}", all_canaries()))
        }
    })
}

#[test]
fn secrets_that_a_model_repeats_reach_neither_a_file_nor_the_terminal() {
    let server = FakeModel::start_on_thread(echoing_models());
    for args in [&["task"] as &[&str], &["--json", "task"], &["--stream-events", "task"]] {
        let althing = with_canaries(&server);
        let command = althing
            .new_command()
            .args(["--config", "team.yaml", "--automation", "--output-file", "answer.md", "--log", "log"])
            .args(args);
        let output = command.spawn().wait(LIMIT).expect_code(0);
        assert_no_canary_anywhere(&output, &althing.state_dir());
        assert_no_canary("the output file", &std::fs::read(althing.work_dir().join("answer.md")).unwrap());
        assert_no_canary("the log", &std::fs::read(althing.work_dir().join("log")).unwrap());
    }
    // The secrets did reach the provider they belong to.
    let sent = server.requests_of("model-b");
    assert_eq!(sent[0].header("authorization"), Some(format!("Bearer {}", IN_CONFIG[1]).as_str()));
    let sent = server.requests_of("model-a");
    assert_eq!(sent[0].header("authorization"), Some("Bearer canary-08-used-as-a-key"));
}

#[test]
fn an_mcp_client_gets_no_secret_that_a_model_repeats() {
    let server = FakeModel::start_on_thread(echoing_models());
    let althing = with_canaries(&server);
    let mut client = Client::start(&althing, &["--config", "team.yaml"]);
    let launched = client.tool("launch_run", &json!({"task": format!("Repeat {}", all_canaries())}));
    let run = launched["structuredContent"]["run_id"].as_str().expect("a run").to_owned();
    for (tool, arguments) in [
        ("run_status", json!({"run_id": run})),
        ("run_result", json!({"run_id": run})),
        ("list_runs", json!({})),
    ] {
        assert_ne!(client.tool(tool, &arguments)["isError"], true);
    }
    let resources = client.call("resources/list", &json!({}));
    for resource in resources["result"]["resources"].as_array().into_iter().flatten() {
        client.call("resources/read", &json!({"uri": resource["uri"]}));
    }
    client.running.close_stdin();
    assert_no_canary_anywhere(&client.running.wait(LIMIT), &althing.state_dir());
}

#[test]
fn a_secret_in_a_panic_message_is_masked() {
    let server = FakeModel::start_on_thread(Script::parliament());
    for (place, code) in [("fact:4", 2), ("session:1", 2)] {
        let althing = with_canaries(&server);
        let command = althing.new_command().env("ALTHING_TEST_PANIC", format!("{place}:{}", all_canaries()));
        let output = command.args(["--config", "team.yaml", "--automation", "task"]).spawn().wait(LIMIT);
        let output = output.expect_code(code);
        assert!(
            output.stderr.contains("failpoint") && output.stderr.contains("[secret]"),
            "{}",
            output.stderr
        );
        assert_no_canary_anywhere(&output, &althing.state_dir());
    }
}

#[test]
fn a_variable_used_in_a_header_is_a_secret_under_any_name() {
    let server = FakeModel::start_on_thread(Script::always(Reply::text("You sent me the-blue-horse-rides.")));
    let althing = althing().env("PASS_PHRASE_OF_MINE", "the-blue-horse-rides");
    let team = Team::on(&server.base_url(), 1).backend(
        0,
        "extra_headers",
        json!({"x-mine": "${PASS_PHRASE_OF_MINE}"}),
    );
    althing.file("team.yaml", team.text());
    let output = run(&althing, &["--config", "team.yaml", "--quick", "task"]).expect_code(0);
    assert_eq!(server.requests()[0].header("x-mine"), Some("the-blue-horse-rides"));
    assert!(!output.stdout.contains("blue-horse"), "{}", output.stdout);
    let kept = files_below(&althing.state_dir());
    let told = kept.iter().find(|(_, text)| String::from_utf8_lossy(text).contains("blue-horse"));
    assert!(told.is_none(), "{} holds it", told.unwrap().0.display());
}

#[test]
fn exported_spans_contain_no_secret_even_with_message_content() {
    let server = FakeModel::start_on_thread(echoing_models());
    let collector = Collector::start(CollectorReply::Take);
    let url = collector.url().replacen("http://", "http://me:canary-01-otlp@", 1);
    let command =
        with_canaries(&server).args(["--config", "team.yaml", "--automation", "--otlp", &url, "task"]);
    let command = command.env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let output = command.spawn().wait(LIMIT).expect_code(0);
    assert!(!output.stderr.contains("canary-01-otlp"), "{}", output.stderr);
    let told = collector.spans();
    assert!(told.iter().any(|span| span.text("gen_ai.output.messages").contains("The end. [secret]")));
    for request in collector.requests() {
        assert_no_canary("an exported request", request.body.as_bytes());
        assert!(request.headers.contains_key("authorization"), "the password went where it belongs");
    }
}

#[test]
fn streamed_progress_contains_no_secret() {
    let server = FakeModel::start_on_thread(echoing_models());
    let althing = with_canaries(&server);
    let args = ["--config", "team.yaml", "--stream-events=all", "task"];
    let output = run(&althing, &args).expect_code(0);
    assert_no_canary("stdout", output.stdout.as_bytes());
    assert_no_canary("stderr", output.stderr.as_bytes());
}

#[test]
fn characters_that_are_not_shown_hide_no_secret_in_streamed_progress() {
    let secret = ENVIRONMENT[0].1;
    let letters: Vec<String> = secret.chars().map(|letter| format!("{letter}\u{200b}")).collect();
    let said = letters.iter().fold(Reply::empty().text_chunks(&letters), Reply::reasoning);
    let answered = Reply::new_answer(&letters.concat()).fragments(500);
    for (reply, kinds) in [(said, &["text", "reasoning"][..]), (answered, &["answer"])] {
        let server = FakeModel::start_on_thread(Script::always(reply));
        let output = run(
            &with_canaries(&server),
            &["--config", "team.yaml", "--quick", "--single-agent", "a", "--stream-events=all", "task"],
        );
        for kind in kinds {
            let lines = output.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let deltas = lines.filter(|line| line["type"] == "delta" && line["kind"] == *kind);
            let shown: String = deltas.filter_map(|line| Some(line["text"].as_str()?.to_owned())).collect();
            assert!(shown.contains("[secret]"), "{kind}: {shown:?}\n{}", output.stdout);
            assert!(!shown.replace('\u{200b}', "").contains(secret), "{kind}: {shown}");
        }
    }
}

#[test]
fn secrets_in_the_task_are_not_stored() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let althing = with_canaries(&server);
    let task = format!("What is wrong with this log?\n{}", all_canaries());
    let command = althing.new_command().args(["--config", "team.yaml", "--automation", "-"]).stdin(task);
    let output = command.spawn().wait(LIMIT).expect_code(0);
    assert_no_canary_anywhere(&output, &althing.state_dir());
    for args in [["sessions", "--json"], ["sessions", "--state-dir=../state"]] {
        assert_no_canary("the list of sessions", run(&althing, &args).expect_code(0).stdout.as_bytes());
    }
}

#[test]
fn a_key_in_a_providers_error_is_masked() {
    let page = |status: &str| {
        let body = json!({"error": {"message": format!("Incorrect API key provided: {}", all_canaries()), "type": "invalid_request_error"}}).to_string();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    for status in ["401 Unauthorized", "404 Not Found", "400 Bad Request", "500 Oh"] {
        let server = FakeModel::start_on_thread(Script::always(Action::Raw(page(status).into())));
        let althing = with_canaries(&server);
        let output = run(
            &althing,
            &["--config", "team.yaml", "--json", "--log", "log", "--log-level", "debug", "task"],
        )
        .expect_code(2);
        let log = std::fs::read(althing.work_dir().join("log")).unwrap();
        assert!(log.windows(6).any(|bytes| bytes == b"failed"), "the failure is logged");
        assert_no_canary("the log", &log);
        assert!(output.stderr.contains(&status[..3]), "the failure is reported: {}", output.stderr);
        assert_no_canary_anywhere(&output, &althing.state_dir());
    }
}

#[test]
fn a_secret_at_the_cut_of_a_long_message_is_not_shown_in_part() {
    for (whose, secret) in [("its own", "canary-08-used-as-a-key"), ("another's", "sk-canary-01-environment")]
    {
        // For one of these lengths the text is cut inside the secret.
        for filler in (180..320).step_by(10) {
            let message = format!("{}{secret} is wrong", "x".repeat(filler));
            let body = json!({"error": {"message": message}}).to_string();
            let page = format!(
                "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let server = FakeModel::start_on_thread(Script::always(Action::Raw(page.into())));
            let althing = with_canaries(&server);
            let output = run(&althing, &["--config", "team.yaml", "--single-agent", "a", "--json", "task"])
                .expect_code(2);
            let part = &secret[..=secret.len() / 2];
            let shown = [&output.stdout, &output.stderr].iter().any(|text| text.contains(part));
            assert!(!shown, "half of {whose} key is shown after {filler} letters:\n{}", output.stderr);
        }
    }
}

#[test]
fn a_broken_config_is_explained_without_its_secrets() {
    let althing = althing();
    let broken = [
        "agents:\n  - id: a\n    backend: {type: openai, api_key: [sk-canary-01-environment], model: 3}\n",
        "agents:\n  - id: a\n    backend:\n      type: openai\n      api_key: \"sk-canary-01-environment\n",
        "agents:\n  - id: a\n    backend:\n      type: opennai\n      api_kee: sk-canary-01-environment\n      api_key: sk-canary-01-environment\n      api_key: sk-canary-01-environment\n",
        "agents:\n  - {id: a, backend: {type: chatcompletion, model: m, extra_headers: {Authorization: Bearer sk-canary-01-environment, bad header: x}}}\n",
    ];
    for (n, text) in broken.iter().enumerate() {
        althing.file("broken.yaml", text);
        for args in [
            &["--config", "broken.yaml", "task"] as &[&str],
            &["config", "check", "broken.yaml"],
            &["config", "check", "broken.yaml", "--json"],
        ] {
            let output = run(&althing, args).expect_code(1);
            assert_no_canary(&format!("stdout of case {n} {args:?}"), output.stdout.as_bytes());
            assert_no_canary(&format!("stderr of case {n} {args:?}"), output.stderr.as_bytes());
        }
    }
}

#[test]
fn stored_files_are_readable_only_by_their_owner() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let althing = with_canaries(&server);
    run(&althing, &["--config", "team.yaml", "--state-dir", "fresh/state", "task"]).expect_code(0);
    let state = althing.work_dir().join("fresh/state");
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&state), 0o700);
    let paths = paths_below(&state);
    assert!(paths.len() > 5);
    for path in paths {
        // Snapshots of a workspace may be read-only even for their owner.
        let most = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path) & !most, 0, "{} has {:o}", path.display(), mode(&path));
    }
}

#[test]
fn a_state_directory_in_a_project_ignores_itself_in_git() {
    let althing = althing();
    let command =
        althing.new_command().env("ALTHING_STATE_DIR", "").args(["--offline", "--automation", "task"]);
    command.spawn().wait(LIMIT).expect_code(0);
    assert_eq!(std::fs::read_to_string(althing.work_dir().join(".althing/.gitignore")).unwrap(), "*\n");
}

fn a_printed_secret_is_kept_nowhere(mode: &str) {
    let althing = ENVIRONMENT[..7].iter().fold(althing(), |althing, (name, value)| althing.env(name, value));
    // The secret is printed whole, in two writes, at every column, and among other output. A program gets a secret only
    // if its task gives it one.
    let given = json!({"OPENAI_API_KEY": "${OPENAI_API_KEY}", "DEPLOY_TOKEN": "${DEPLOY_TOKEN}"});
    let (front, back) = ENVIRONMENT[0].1.split_at(9);
    let print = format!(
        "echo \"key: $OPENAI_API_KEY.\"; printf %s '{front}'; sleep 0.3; echo '{back}, too'; printenv; \
         for n in $(seq 1 230); do printf \"%0${{n}}d$OPENAI_API_KEY\\n\" 0; done; seq 1 20000; printf %s \"the end: $DEPLOY_TOKEN\""
    );
    let task = json!({"id": "leak", "agent": "command", "command": ["sh", "-c", print], "executionMode": mode, "prompt": "", "env": given});
    let flow = json!({"name": "leak", "goal": "g", "stages": [{"name": "s", "tasks": [task]}]});
    althing.file("flow.yaml", flow.to_string());
    let args = ["workflow", "run", "flow.yaml", "--offline", "--stream-events=all"];
    let output = run(&althing, &args).expect_code(0);
    assert_no_canary_anywhere(&output, &althing.state_dir());
    let kept = files_below(&althing.state_dir());
    // The secret must not appear split over two adjacent screen lines either.
    for text in kept.iter().map(|(_, bytes)| bytes.as_slice()).chain([output.stdout.as_bytes()]) {
        let joined =
            String::from_utf8_lossy(text).replace("\\r", "").replace("\\n", "").replace(['\r', '\n'], "");
        assert_no_canary("a text without its line ends", joined.as_bytes());
    }
    let raw = kept.iter().find(|(path, _)| path.ends_with("output.raw")).expect("the output is kept");
    let raw = String::from_utf8_lossy(&raw.1).replace('\r', "");
    assert!(raw.starts_with("key: [secret].\n[secret], too\n"), "{}", &raw[..200]);
    assert!(raw.ends_with("19999\n20000\nthe end: [secret]"), "{}", &raw[raw.len() - 200..]);
}

#[test]
fn a_secret_printed_by_a_headless_program_is_stored_nowhere() {
    a_printed_secret_is_kept_nowhere("headless");
}

#[test]
fn a_secret_printed_by_a_program_in_a_terminal_is_stored_nowhere() {
    a_printed_secret_is_kept_nowhere("interactive");
}

#[test]
fn a_secret_in_the_id_or_name_of_a_tool_call_is_stored_nowhere_on_any_wire_format() {
    let [(_, id), (_, part_of_an_id), (_, name)] = [ENVIRONMENT[0], ENVIRONMENT[2], ENVIRONMENT[3]];
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let began = request.raw_body().windows(12).any(|bytes| bytes == b"first-call.x");
        if began || !request.tool_names().contains(&"new_answer") {
            return Parliament::default().reply(request).into();
        }
        let call = |id: String, name: &str| {
            let call = ToolCall::new(name, &json!({"path": "first-call.x"}).to_string());
            ToolCall { id: Some(id), ..call }
        };
        let reply = Reply::empty()
            .and_tool_call(call(id.to_owned(), "read_file"))
            .and_tool_call(call(name.to_owned(), "list_directory"))
            .and_tool_call(call(format!("call_{part_of_an_id}_1"), name));
        Action::from(reply)
    });
    let fixture = Fixture::with(4, script, |team| {
        let kinds = ["openai", "claude", "gemini", "chatcompletion"];
        let team = kinds.into_iter().enumerate().fold(team, |team, (agent, kind)| {
            team.backend(agent, "type", kind).backend(agent, "api_key", "sk-test-0123456789")
        });
        team.every_backend("cwd", "here")
    });
    let command = fixture.command(&["--stream-events=all", "--log", "log", "--log-level", "debug", "task"]);
    let command = ENVIRONMENT[..4].iter().fold(command, |command, (name, value)| command.env(name, value));
    let output = command.spawn().wait(LIMIT).expect_code(0);
    for wire in ["/responses", "/messages", ":streamGenerateContent", "/chat/completions"] {
        let spoken = fixture.server.requests().iter().filter(|request| request.path().contains(wire)).count();
        assert!(spoken > 2, "{wire} was spoken {spoken} times");
    }
    assert_no_canary_anywhere(&output, &fixture.althing.state_dir());
    assert_no_canary("the log", &std::fs::read(fixture.althing.work_dir().join("log")).unwrap());
    // Every call got its result, although two calls had only a secret as their id.
    let events = fixture.althing.events();
    let replies = items(&events, "reply");
    let calls = replies.iter().filter_map(|reply| reply["tool_calls"].as_array()).flatten();
    for (tool, id) in [("read_file", "secret"), ("list_directory", "secret-2"), ("secret", "call_secret_1")] {
        let ids: Vec<&Value> =
            calls.clone().filter(|call| call["name"] == tool).map(|call| &call["id"]).collect();
        assert!(ids.len() >= 4 && ids.iter().all(|own| *own == id), "{tool}: {ids:?}");
    }
    let results = items(&events, "tool_result");
    for id in ["secret", "secret-2"] {
        let count = results.iter().filter(|result| result["call"] == id).count();
        assert!(count >= 4, "{id} has {count} results");
    }
}

#[test]
fn a_secret_in_any_variable_is_masked_by_name_or_by_value_and_ordinary_values_are_not() {
    let secret = [
        ("TOKEN", "wx7-token-alone"),
        ("SECRET", "wx7-secret-alone"),
        ("PASSWORD", "wx7-password-alone"),
        ("PGPASSWORD", "wx7-pgpassword"),
        ("APIKEY", "wx7-apikey"),
        ("GITHUB_PAT", "wx7-github-pat"),
        ("MYSQL_PWD", "wx7-mysql-pwd"),
        ("serviceApiKey", "wx7-mixed-case"),
        ("SESSION_COOKIE", "wx7-session-cookie"),
        ("PROXY_AUTH", "wx7-proxy-auth"),
        ("API_KEY_2", "wx7-numbered-key"),
        ("GREEN_HORSE", "ghp_wx7abcdefghijklmnop0123"),
    ];
    let addresses = [
        ("DATABASE_URL", "postgres://app:wx7-in-an-address@db.example/app", "wx7-in-an-address"),
        ("QUEUES", "amqp://a:b@one,amqp://me:wx7-second-one@two", "wx7-second-one"),
        ("BACKUP", "https://u:wx7%2Fencoded%21@h/x", "wx7/encoded!"),
        ("ODBC", "Server=db;User=app;Password=wx7-connection-string;", "wx7-connection-string"),
    ];
    let ordinary = [
        ("KEYBOARD", "wx7-qwerty-layout"),
        ("SSH_AUTH_SOCK", "/tmp/wx7-agent.sock"),
        ("TERM_SESSION_ID", "wx7-terminal-session"),
        ("GIT_AUTHOR_NAME", "wx7 Author"),
        ("TOKENIZERS_PARALLELISM", "wx7-parallelism"),
        ("OLDPWD", "/home/wx7/before"),
        ("GIT_AUTH", "github"),
        ("LOCAL_DATABASE", "postgres://postgres:postgres@localhost/wx7"),
    ];
    let said = secret.iter().map(|(_, value)| *value).chain(addresses.iter().map(|(.., part)| *part));
    let said: Vec<&str> = said.chain(ordinary.iter().map(|(_, value)| *value)).collect();
    let reply = format!("I saw: {}", said.join(" | "));
    let server = FakeModel::start_on_thread(Script::always(Reply::text(reply)));
    let mut althing = althing();
    for (name, value) in secret.iter().chain(&ordinary) {
        althing = althing.env(name, value);
    }
    for (name, value, _) in addresses {
        althing = althing.env(name, value);
    }
    althing.file("team.yaml", Team::on(&server.base_url(), 1).text());
    let output = run(&althing, &["--config", "team.yaml", "--quick", "task"]).expect_code(0);
    let kept = files_below(&althing.state_dir());
    let mut texts = vec![("stdout".to_owned(), output.stdout.clone())];
    texts.extend(
        kept.iter()
            .map(|(path, text)| (path.display().to_string(), String::from_utf8_lossy(text).into_owned())),
    );
    for (_, value) in secret.iter().copied().chain(addresses.iter().map(|(name, _, part)| (*name, *part))) {
        let leak = texts.iter().find(|(_, text)| text.contains(value));
        assert!(leak.is_none(), "{value} is in {}", leak.unwrap().0);
    }
    for (name, value) in ordinary {
        assert!(output.stdout.contains(value), "{name} is no secret:\n{}", output.stdout);
    }
}

#[test]
fn a_secret_that_a_model_encodes_is_masked_too() {
    // In base64, "sk-canary-01-environment", "user:sk-canary-01-environment!" and "me:…"; the first also in hex.
    let encoded = [
        "c2stY2FuYXJ5LTAxLWVudmlyb25tZW50",
        "dXNlcjpzay1jYW5hcnktMDEtZW52aXJvbm1lbnQh",
        "bWU6c2stY2FuYXJ5LTAxLWVudmlyb25tZW50",
        "736b2d63616e6172792d30312d656e7669726f6e6d656e74",
        "736B2D63616E6172792D30312D656E7669726F6E6D656E74",
        // `canary-09-"quoted"\and/æøå` in a URL.
        "canary-09-%22quoted%22%5Cand%2F%C3%A6%C3%B8%C3%A5",
        "canary-09-%22quoted%22%5cand%2f%c3%a6%c3%b8%c3%a5",
        // `canary-09-"quoted"\and/æøå` in HTML.
        "canary-09-&quot;quoted&quot;\\and/æøå",
        // "sk-canary-01-environment" and "absk-canary-01-environmentz" in base32.
        "ONVS2Y3BNZQXE6JNGAYS2ZLOOZUXE33ONVSW45A=",
        "MFRHG2ZNMNQW4YLSPEWTAMJNMVXHM2LSN5XG2ZLOOR5A====",
    ];
    let every = |write: fn(char) -> String| ENVIRONMENT[0].1.chars().map(write).collect::<String>();
    let escaped = [
        every(|c| format!("\\u{:04x}", u32::from(c))),
        every(|c| format!("&#{};", u32::from(c))),
        every(|c| format!("&#x{:x};", u32::from(c))),
    ];
    let reply = format!("Guess: {} {}", encoded.join(" "), escaped.join(" "));
    let server = FakeModel::start_on_thread(Script::always(Reply::text(reply).chunks(9)));
    let althing = with_canaries(&server);
    let args = ["--config", "team.yaml", "--single-agent", "a", "--quick", "--stream-events=all", "task"];
    let output = run(&althing, &args).expect_code(0);
    let mut texts: Vec<String> = files_below(&althing.state_dir())
        .iter()
        .map(|(_, text)| String::from_utf8_lossy(text).into_owned())
        .collect();
    texts.push(output.stdout);
    for core in [
        "FuYXJ5LTAxLWVudmly",
        "5hcnktMDEtZW52aXJv",
        "616e6172792d30312d65",
        "616E6172792D30312D65",
        "canary-09-",
        "ZQXE6JNGAYS2ZLOOZUXE33O",
        "NQW4YLSPEWTAMJNMVXHM2LS",
        "u0063\\u0061\\u006e\\u0061",
        "u0063\\\\u0061\\\\u006e\\\\u0061",
        "&#99;&#97;&#110;&#97;",
        "&#x63;&#x61;&#x6e;&#x61;",
    ] {
        assert!(!texts.iter().any(|text| text.contains(core)), "{core} is there");
    }
}

#[test]
fn a_secret_in_the_long_result_of_an_mcp_server_is_stored_nowhere() {
    let (_, key) = ENVIRONMENT[0];
    let script = Script::from_fn(move |request: &RecordedRequest| {
        if request.messages().iter().any(|message| message["role"] == "tool") {
            return Parliament::default().reply(request).into();
        }
        Action::from(Reply::call("mcp__sky__weather", &json!({ "city": "Rome" })))
    });
    let fixture = Fixture::with(1, script, |team| {
        let server = json!([{"name": "sky", "type": "stdio", "command": "python3", "args": ["sky.py"]}]);
        team.every_backend("mcp_servers", server)
    });
    let long = format!("\"{key} is the key. \" + \"x\" * 200000 + \" \" + ask");
    fixture.althing.file("sky.py", SKY.replace("\"Sunny in \" + ask", &long));
    let output =
        fixture.command(&["--quick", "task"]).env("OPENAI_API_KEY", key).spawn().wait(LIMIT).expect_code(0);
    assert_no_canary_anywhere(&output, &fixture.althing.state_dir());
    let kept = files_below(&fixture.althing.state_dir());
    let whole = kept.iter().find(|(path, _)| path.display().to_string().contains("/outputs/"));
    let (_, whole) = whole.expect("the whole result is kept");
    assert!(whole.starts_with(b"[secret] is the key. xxx") && whole.ends_with(b"x Rome"));
}

#[test]
fn variables_with_secret_names_do_not_reach_the_commands_of_a_workflow() {
    let althing = althing();
    let task = json!({"id": "one", "agent": "command", "command": ["env"], "executionMode": "headless", "prompt": ""});
    althing
        .file("flow.yaml", json!({"name": "flow", "stages": [{"name": "one", "tasks": [task]}]}).to_string());
    let names =
        ["TOKEN", "SECRET", "PGPASSWORD", "APIKEY", "GITHUB_PAT", "DB_PASS", "SENTRY_DSN", "SESSION_COOKIE"];
    let command = names.iter().fold(althing.new_command().env("PLAIN_WORD", "harmless"), |command, name| {
        command.env(name, "canary-99-in-the-environment")
    });
    let output =
        command.args(["workflow", "run", "flow.yaml", "--offline"]).spawn().wait(LIMIT).expect_code(0);
    assert!(output.stdout.contains("PLAIN_WORD=harmless"), "{}", output.stdout);
    for name in names {
        assert!(!output.stdout.contains(&format!("{name}=")), "{name}: {}", output.stdout);
    }
}

#[test]
fn a_found_dotenv_file_does_not_replace_the_users_own_key() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let althing = althing();
    althing.file("team.yaml", Team::on(&server.base_url(), 1).backend(0, "api_key", "${TEAM_KEY}").text());
    althing.file(".env", "TEAM_KEY=key-of-a-stranger\n");
    let users = althing.home_dir().join(".config/althing");
    std::fs::create_dir_all(&users).unwrap();
    std::fs::write(users.join(".env"), "TEAM_KEY=key-of-the-user\n").unwrap();
    run(&althing, &["--config", "team.yaml", "--automation", "task"]).expect_code(0);
    for request in server.requests_of("model-a") {
        assert_eq!(request.header("authorization"), Some("Bearer key-of-the-user"));
    }
    assert!(server.request_count() > 0);
}

#[test]
fn what_althing_remembers_about_the_user_is_private_whatever_the_umask_is() {
    for (umask, earlier) in [("000", false), ("002", false), ("022", true)] {
        let althing = althing();
        let kept = althing.home_dir().join(".local/state/althing");
        if earlier {
            // A directory that an earlier version left open.
            std::fs::create_dir_all(&kept).unwrap();
            std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let line =
            format!("umask {umask}; exec {} --offline --automation task", env!("CARGO_BIN_EXE_althing"));
        althing.program("/bin/sh").args(["-c", &line]).spawn().wait(LIMIT).expect_code(0);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&kept), 0o700, "umask {umask}");
        for (path, _) in files_below(&kept) {
            assert_eq!(mode(&path), 0o600, "umask {umask}: {}", path.display());
        }
    }
}

#[test]
fn a_found_dotenv_file_with_too_much_in_it_is_refused_at_once() {
    let line = |n: usize| format!("A{n}_KEY=value-{n:08}\n");
    let [many, secrets, ordinary] = [50_000, 201, 200].map(|count| (0..count).map(line).collect::<String>());
    for (text, what) in [(many, "is larger than 64 KiB"), (secrets, "has 201 secrets")] {
        let althing = althing();
        althing.file(".env", text);
        let output = run(&althing, &["--offline", "--automation", "task"]).expect_code(1);
        assert!(output.stderr.contains(what), "{}", output.stderr);
    }
    let althing = althing();
    althing.file(".env", ordinary);
    run(&althing, &["--offline", "--automation", "task"]).expect_code(0);
}

#[test]
fn secrets_inside_arguments_and_addresses_of_the_config_are_masked() {
    const INSIDE: [&str; 8] = [
        "Canary31OptionValue",
        "Canary32BearerInAHeader",
        "Canary33KeyInAHeader",
        "Canary34QueryOfAnArgument",
        "Canary35Assignment",
        "Canary36QueryOfAServer",
        "Canary37QueryOfTheModel",
        "Canary38OfAVariable",
    ];
    let server = FakeModel::start_on_thread(Script::from_fn(|request| {
        let told = json!({"content": format!("{} and keyword=ordinary", INSIDE.join(" "))});
        if request.messages().iter().any(|message| message["role"] == "tool") {
            return Parliament::default().reply(request);
        }
        Reply::call("new_answer", &told)
    }));
    let servers = json!([
        {"name": "one", "type": "stdio", "command": "/bin/false", "args": [
            format!("--api-key={}", INSIDE[0]), "-H", format!("Authorization: Bearer {}", INSIDE[1]),
            "-H", format!("X-Api-Key: {}", INSIDE[2]),
            format!("https://nowhere.invalid/?a=b&token={}&c=d", INSIDE[3]),
            format!("PASSWORD={}", INSIDE[4]), "--secret=${SOME_VALUE}", "--sort-key=ordinary"]},
        {"name": "two", "type": "streamable-http", "url": format!("http://127.0.0.1:9/mcp?api_key={}", INSIDE[5])},
    ]);
    let address = format!("{}?key={}", server.base_url(), INSIDE[6]);
    let althing = althing().env("SOME_VALUE", INSIDE[7]);
    althing.file("team.yaml", Team::on(&address, 1).every_backend("mcp_servers", servers).text());
    let run = run(&althing, &["--config", "team.yaml", "--stream-events", "--quick", "task"]).expect_code(0);
    assert!(run.stdout.contains("and keyword=ordinary"), "{}", run.stdout);
    let outputs = [run.stdout, run.stderr].map(String::into_bytes);
    let stored = files_below(&althing.state_dir()).into_iter().map(|(_, bytes)| bytes);
    for text in outputs.into_iter().chain(stored) {
        let text = String::from_utf8_lossy(&text);
        for secret in INSIDE {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
