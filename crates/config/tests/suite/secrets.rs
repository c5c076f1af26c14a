//! Secrets are masked in messages, stored texts and everything else that is written.

use althing_config::{
    LoadPurpose, Source, Style, load_config, redact, secrets_in_found_variable, secrets_in_variable,
};
use althing_protocol::{Secret, is_secret_name};

use super::support::{checked, env};

const CANARY: &str = "canary-5f3a9c";

#[test]
fn plain_text_secrets_are_replaced_and_variables_stay() {
    let text = format!(
        "# old: api_key: {CANARY}
agents:
  - id: a
    system_message: 'Mind the token: it is not a secret'
    backend:
      type: openai
      api_key: {CANARY}-1   # my key
      base_url: https://user:{CANARY}-2@host/v1
      max_tokens: 100
      extra_headers: {{Authorization: Bearer {CANARY}-3, X-Api-Key: \"{CANARY}-4\", Accept: text/plain}}
      default_headers:
        Authorization: Bearer ${{TOKEN}}
        x-auth-token: ${{T:-{CANARY}-5}}
      mcp_servers:
        - name: n
          command: npx
          args: [--key, sk-abcdefghijklmnop0123456789, --auth-token, {CANARY}-8, '--token={CANARY}-9', '--sort-key=name']
          url: 'https://host/mcp?a=b&api_key={CANARY}-10'
          env:
            NOTION_TOKEN: {CANARY}-6
            DB_PASSWORD: |
              {CANARY}-7
            MODE: fast
  - id: b
    backend: {{type: openai, api_key: '${{OPENAI_API_KEY}}'}}
"
    );
    let redacted = redact(&text);
    assert!(!redacted.contains("canary"), "{redacted}");
    assert!(!redacted.contains("sk-abc"), "{redacted}");
    for kept in [
        "max_tokens: 100",
        "Accept: text/plain",
        "Authorization: Bearer ${TOKEN}",
        "api_key: '${OPENAI_API_KEY}'",
        "MODE: fast",
        "--sort-key=name",
        "Mind the token: it is not a secret",
        "# my key",
    ] {
        assert!(redacted.contains(kept), "{kept} is gone from:\n{redacted}");
    }
    assert!(!checked(&redacted).errors.iter().any(|error| error.message.contains("YAML")), "{redacted}");
    assert_eq!(redact(&redacted), redacted, "there is nothing left to redact");
}

#[test]
fn a_secret_under_a_duplicate_key_is_replaced_too() {
    for text in [
        format!("a: {{api_key: {CANARY}-1, api_key: {CANARY}-2}}\n"),
        format!("a: {{<<: {{api_key: {CANARY}-1, token: {CANARY}-3}}, api_key: {CANARY}-2}}\n"),
        format!("x: &x {{api_key: {CANARY}-1}}\na: {{<<: *x, api_key: {CANARY}-2}}\nb: *x\n"),
    ] {
        assert!(!redact(&text).contains("canary"), "{}", redact(&text));
    }
}

#[test]
fn text_that_is_not_yaml_is_redacted_line_by_line() {
    let text = format!(
        "agents: [\n  api_key: {CANARY}\n  {{type: x, token: {CANARY}, model: m}}\nkey: 'sk-abcdefghijklmnop0123456789'\nname: kept\n"
    );
    let redacted = redact(&text);
    assert!(!redacted.contains("canary") && !redacted.contains("sk-abc"), "{redacted}");
    assert!(redacted.contains("name: kept") && redacted.contains("model: m"));
}

#[test]
fn a_message_about_a_line_never_quotes_its_secret() {
    for text in [
        format!("agents:\n  - id: a\n    backend: {{type: opnai, api_key: {CANARY}}}\n"),
        format!("agents:\n  - id: a\n    backend: {{type: openai, api_key: {CANARY}, api_key: {CANARY}}}\n"),
        format!("agents:\n  - id: a\n    backend: {{type: openai, apikey: {CANARY}}}\n"),
        format!("agents:\n  - id: a\n    backend: {{type: openai, api_key: [{CANARY}]}}\n"),
        format!("agents:\n  - id: a\n    backend: {{type: openai, api_key: {CANARY}\n"),
        format!(
            "agents:\n  - id: a\n    backend:\n      type: openai\n      api_key: {CANARY}\n     model: x\n"
        ),
        format!("agents:\n  - id: a\n    backend: {{type: openai, base_url: 'x://u:{CANARY}@h'}}\n"),
        "agents:\n  - id: a\n    backend: {type: sk-canary0123456789abcdef}\n".to_owned(),
    ] {
        let report = checked(&text);
        assert!(!report.errors.is_empty() || !report.warnings.is_empty());
        let shown = format!("{}{}", report.render(Style::Plain), report.to_json());
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[test]
fn the_report_lists_every_secret_it_saw_even_with_errors() {
    let text = format!(
        "agents:\n  - {{id: a, backend: {{type: openai, api_key: {CANARY}}}}}\n  - {{id: b, backend: {{type: groq, extra_headers: {{X-Token: '${{MY_TOKEN}}', Authorization: 'Bearer ${{PLAIN}}'}}}}}}\n"
    );
    let variables = [
        ("MY_TOKEN", "token-in-the-environment"),
        ("GROQ_API_KEY", "groq-in-the-environment"),
        ("PLAIN", "plain-in-the-environment"),
    ];
    let source = Source { name: "team.yaml", text: &text };
    let report = load_config(source, &env(&variables), LoadPurpose::Run);
    let mut seen: Vec<&str> = report.secrets.iter().map(Secret::reveal).collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        [CANARY, "groq-in-the-environment", "plain-in-the-environment", "token-in-the-environment"]
    );
    let broken = text.replace("type: groq", "type: groc");
    let report = load_config(Source { name: "team.yaml", text: &broken }, &env(&variables), LoadPurpose::Run);
    assert!(!report.is_valid() && report.secrets.iter().any(|secret| secret.reveal() == CANARY));
}

#[test]
fn secret_names_are_recognized_in_every_spelling_and_others_are_not() {
    for name in [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PGPASSWORD",
        "APIKEY",
        "GITHUB_PAT",
        "GITHUB_PAT2",
        "TOKEN2",
        "api-key-3",
        "OPENAI_API_KEY",
        "apiKey",
        "x-api-key",
        "Authorization",
        "x-auth-token",
        "ANTHROPIC_AUTH_TOKEN",
        "authToken",
        "AWS_SECRET_ACCESS_KEY",
        "SECRET_KEY_BASE",
        "MYSQL_PWD",
        "DB_PASS",
        "SENTRY_DSN",
        "SESSION_COOKIE",
        "CLOUD_CREDENTIALS",
        "SSH_PASSPHRASE",
        "DOCKER_AUTH_CONFIG",
        "API_KEY_2",
        "TOKEN_OF_MINE",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in [
        "PATH",
        "PWD",
        "OLDPWD",
        "HOME",
        "SSH_AUTH_SOCK",
        "KEYBOARD",
        "TERM_SESSION_ID",
        "XAUTHORITY",
        "GIT_AUTHOR_NAME",
        "TOKENIZERS_PARALLELISM",
        "max_tokens",
        "threshold_tokens",
        "DB_PASSWORD_FILE",
        "TOKEN_URL",
        "auth_type",
        "SSH_ASKPASS",
        "",
        "123",
        "__",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn a_token_in_the_place_of_a_user_is_a_secret_of_the_config() {
    for address in
        ["S3cr3tValueOfMine@host", "S3cr3tValueOfMine:@host", "S3cr3tValueOfMine:x-oauth-basic@host"]
    {
        let text =
            format!("agents: [{{id: a, backend: {{type: openai, base_url: 'https://{address}/v1'}}}}]");
        let source = Source { name: "team.yaml", text: &text };
        let report = load_config(source, &env(&[]), LoadPurpose::Run);
        let secrets: Vec<&str> = report.secrets.iter().map(Secret::reveal).collect();
        assert_eq!(secrets, ["S3cr3tValueOfMine"], "{address}");
        assert!(!redact(&text).contains("S3cr3t"), "{address}");
    }
}

#[test]
fn secrets_in_variables_are_found_by_name_or_value() {
    let found = |name: &str, value: &str| -> Vec<String> {
        secrets_in_variable(name, value).iter().map(|secret| secret.reveal().to_owned()).collect()
    };
    for (name, value, secrets) in [
        ("TOKEN", " abc-123\n", &["abc-123"] as &[&str]),
        ("AUTHORIZATION", "Bearer abc-123", &["abc-123"]),
        ("ANY", "sk-abcdefghijklmnop0123456789", &["sk-abcdefghijklmnop0123456789"]),
        ("DATABASE_URL", "postgres://me:p%40ss%2Fword@db/x", &["p%40ss%2Fword", "p@ss/word"]),
        ("DATABASE_URL", "postgres://postgres:postgres@db/x", &[]),
        ("REDIS", "redis://:only-a-password@cache", &["only-a-password"]),
        ("ODBC", "Server=s;Pwd='in-quotes';x", &["in-quotes"]),
        ("LIBPQ", "host=h password=after-a-space user=u", &["after-a-space"]),
        ("BROKEN", "https://me:100%@h https://me:%zz%4@h", &["100%", "%zz%4"]),
        ("GIT", "https://0123456789abcdefTOKEN@host/x.git", &["0123456789abcdefTOKEN"]),
        ("GIT", "https://S3cr3tTokenOfMine:@host", &["S3cr3tTokenOfMine"]),
        ("GIT", "https://S3cr3tTokenOfMine:x-oauth-basic@host", &["S3cr3tTokenOfMine"]),
        ("GIT", "https://x-oauth-2-is-a-name:S3cr3tTokenOfMine@host", &["S3cr3tTokenOfMine"]),
        ("GIT", "ssh://git@host https://a-user-without-digits@host https://shortuser1@host", &[]),
        ("EDITOR", "vim", &[]),
        ("SOME_AUTH", "disabled", &[]),
        ("SOME_AUTH", "/etc/auth/config", &[]),
        ("SOME_AUTH", "a1b2c3d4", &["a1b2c3d4"]),
        ("SITE", "https://example.org/a:b@c", &[]),
        ("TOKEN", "", &[]),
    ] {
        assert_eq!(found(name, value), secrets, "{name}={value}");
    }
}

#[test]
fn a_found_variable_hides_only_what_has_the_shape_of_a_secret() {
    for value in [
        "Summarize the notes\n  May write /home/me",
        "; touch /tmp/x",
        "/home/me/.ssh",
        "~/.ssh/authorized_keys1",
        "../victim2/file",
        "tools/server2.py",
        "https://evil.example/1",
        "Nothing",
        "approve",
        "a1b2c3",
        "12345678",
        "two words12",
        "escape\u{1b}[2K12",
    ] {
        assert!(secrets_in_found_variable("X_TOKEN", value).is_empty(), "{value}");
    }
    for value in [
        "sk-abcdefghijklmnop0123456789",
        "a1b2c3d4",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "correct-horse-battery-staple",
        "Ab3/dEf-GhI.jkl/mno_12",
    ] {
        let found = secrets_in_found_variable("X_TOKEN", value);
        assert_eq!(found.iter().map(Secret::reveal).collect::<Vec<_>>(), [value]);
    }
    let password = secrets_in_found_variable("DATABASE_URL", "postgres://me:p4ssw0rd-of-db@db/x");
    assert_eq!(password.iter().map(Secret::reveal).collect::<Vec<_>>(), ["p4ssw0rd-of-db"]);
}
