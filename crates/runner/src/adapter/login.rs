//! Whether the user has signed in to a CLI agent, as far as its files and the environment show.

use super::OwnPath;
use althing_disk::read_regular;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What shows that the user has signed in to a CLI agent. Any one sign is enough.
#[derive(Clone, Debug)]
pub struct LoginSigns {
    /// Variables that hold a key, or that select a service with credentials of its own.
    pub variables: &'static [&'static str],
    /// JSON files that hold the credentials once the user has signed in.
    pub credentials: Vec<OwnPath>,
    /// The same for encrypted files.
    pub encrypted_credentials: Vec<OwnPath>,
    /// Settings files that can name a key or another service, each with the keys that do. A key that ends with `_` is
    /// the beginning of a key.
    pub settings: Vec<(OwnPath, &'static [&'static str])>,
    /// How the user can sign in.
    pub hint: &'static str,
}

impl LoginSigns {
    /// How the user can sign in; `None` if a sign is found. `env` looks up a variable.
    pub fn missing(&self, home: &Path, env: &dyn Fn(&str) -> Option<PathBuf>) -> Option<&'static str> {
        let has_variable =
            self.variables.iter().any(|name| env(name).is_some_and(|value| !value.as_os_str().is_empty()));
        let text = |file: &OwnPath| {
            let bytes = read_regular(&file.path(home, env), MAX_BYTES).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let has_credentials = || {
            let in_json = |file| serde_json::from_str(&text(file)).is_ok_and(|json| holds_text(&json));
            self.credentials.iter().any(in_json)
                || self.encrypted_credentials.iter().any(|file| !text(file).trim().is_empty())
        };
        let has_settings = || {
            self.settings.iter().any(|(file, keys)| {
                let text = text(file);
                keys.iter().any(|key| sets(&text, key))
            })
        };
        (!has_variable && !has_credentials() && !has_settings()).then_some(self.hint)
    }
}

const MAX_BYTES: u64 = 4 << 20;
/// Values that stand for nothing, or for what the CLI agent does without the key.
const NO_VALUES: [&str; 7] = ["\"\"", "''", "null", "{}", "[]", "\"openai\"", "\"file\""];

fn holds_text(json: &Value) -> bool {
    match json {
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => values.iter().any(holds_text),
        Value::Object(fields) => fields.values().any(holds_text),
        _ => false,
    }
}

/// Whether a text in TOML, JSON or the format of `.env` sets this key to a value, outside of comment lines.
fn sets(text: &str, key: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(key).any(|(at, _)| {
        let (before, rest) = text.split_at(at);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_comment = ["#", "//"].iter().any(|mark| line.trim_start().starts_with(mark));
        let rest = rest.strip_prefix(key).unwrap_or_default();
        let rest = if key.ends_with('_') { rest.trim_start_matches(is_name) } else { rest };
        let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start_matches([' ', '\t']);
        let value = rest
            .strip_prefix(['=', ':'])
            .and_then(|value| value.trim_start_matches([' ', '\t']).lines().next());
        let has_value = value.is_some_and(|value| {
            !value.trim().is_empty() && !NO_VALUES.iter().any(|nothing| value.starts_with(nothing))
        });
        has_value && !is_comment && !before.ends_with(is_name)
    })
}

pub(super) fn claude() -> Option<LoginSigns> {
    // On macOS, Claude Code stores its credentials in the keychain.
    cfg!(target_os = "linux").then(|| LoginSigns {
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ],
        credentials: vec![
            OwnPath::new(".claude/.credentials.json").overridden_by("CLAUDE_CONFIG_DIR", ".credentials.json"),
        ],
        encrypted_credentials: Vec::new(),
        settings: vec![
            (
                OwnPath::new(".claude/settings.json").overridden_by("CLAUDE_CONFIG_DIR", "settings.json"),
                &["apiKeyHelper", "ANTHROPIC_", "CLAUDE_CODE_USE_"],
            ),
            (
                OwnPath::new(".claude.json").overridden_by("CLAUDE_CONFIG_DIR", ".claude.json"),
                &["primaryApiKey", "oauthAccount"],
            ),
        ],
        hint: super::claude_events::SIGN_IN,
    })
}

pub(super) fn codex() -> LoginSigns {
    let in_home = |name: &str| OwnPath::new(&format!(".codex/{name}")).overridden_by("CODEX_HOME", name);
    LoginSigns {
        variables: &["CODEX_API_KEY", "CODEX_ACCESS_TOKEN"],
        credentials: vec![in_home("auth.json")],
        encrypted_credentials: Vec::new(),
        settings: vec![(
            in_home("config.toml"),
            &["model_provider", "cli_auth_credentials_store", "oss_provider", "profile"],
        )],
        hint: "run `codex login`",
    }
}

pub(super) fn gemini() -> LoginSigns {
    let in_home = |name: &str| {
        let path = format!(".gemini/{name}");
        OwnPath::new(&path).overridden_by("GEMINI_CLI_HOME", &path)
    };
    LoginSigns {
        variables: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ],
        credentials: vec![in_home("oauth_creds.json")],
        encrypted_credentials: vec![in_home("gemini-credentials.json")],
        settings: vec![
            (in_home(".env"), &["GEMINI_API_KEY", "GOOGLE_"]),
            (OwnPath::new(".env"), &["GEMINI_API_KEY", "GOOGLE_"]),
        ],
        hint: "run `gemini` once to sign in, or set GEMINI_API_KEY",
    }
}

pub(super) fn opencode() -> LoginSigns {
    let config = |name: &str| {
        let path = format!("opencode/{name}");
        OwnPath::new(&format!(".config/{path}")).overridden_by("XDG_CONFIG_HOME", &path)
    };
    let auth =
        OwnPath::new(".local/share/opencode/auth.json").overridden_by("XDG_DATA_HOME", "opencode/auth.json");
    LoginSigns {
        variables: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENROUTER_API_KEY",
            "GROQ_API_KEY",
            "XAI_API_KEY",
            "DEEPSEEK_API_KEY",
            "MISTRAL_API_KEY",
            "AWS_PROFILE",
            "AWS_ACCESS_KEY_ID",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "OPENCODE_API_KEY",
            "OPENCODE_CONFIG",
            "OPENCODE_CONFIG_CONTENT",
        ],
        credentials: vec![auth],
        encrypted_credentials: Vec::new(),
        settings: ["opencode.json", "opencode.jsonc", "config.json"]
            .map(|name| (config(name), &["provider", "model"][..]))
            .to_vec(),
        hint: "run `opencode auth login`, or set the provider's key",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_sign_is_enough() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let signs = LoginSigns {
            variables: &["TOY_KEY"],
            credentials: vec![OwnPath::new(".toy/auth.json").overridden_by("TOY_HOME", "auth.json")],
            encrypted_credentials: vec![OwnPath::new(".toy/sealed")],
            settings: vec![(OwnPath::new(".toy/config"), &["provider", "TOY_"])],
            hint: "sign in",
        };
        let nothing = |_: &str| None;
        assert_eq!(signs.missing(home, &nothing), Some("sign in"));
        assert_eq!(signs.missing(home, &|_| Some(PathBuf::new())), Some("sign in"), "an empty variable");
        assert_eq!(signs.missing(home, &|name| (name == "TOY_KEY").then(|| "k".into())), None);
        std::fs::create_dir(home.join(".toy")).unwrap();
        let is_signed_in = |name: &str, text: &str| {
            let file = home.join(".toy").join(name);
            std::fs::write(&file, text).unwrap();
            let missing = signs.missing(home, &nothing);
            std::fs::remove_file(file).unwrap();
            missing.is_none()
        };
        for text in [
            "provider = \"x\"",
            "a = 1\n  provider=x # y",
            r#"{"a": 1, "provider": {"#,
            "export TOY_KEY=k",
            r#"{"TOY_X":"k"}"#,
        ] {
            assert!(is_signed_in("config", text), "{text}");
        }
        for text in [
            "model = x",
            "# provider = x",
            "  // \"provider\": 1",
            "[provider]",
            "provider",
            "providers = x",
            "my_provider = x",
            "provider = \"\"",
            "provider =",
            "{\"provider\": null}",
            "provider = \"openai\"",
            "model = \"provider\"",
        ] {
            assert!(!is_signed_in("config", text), "{text}");
        }
        for text in ["", "{}", "{", "null", r#"{"key": null, "tokens": {"id": ""}}"#] {
            assert!(!is_signed_in("auth.json", text), "{text}");
        }
        assert!(is_signed_in("auth.json", r#"{"key": null, "tokens": {"id": "x"}}"#));
        assert!(!is_signed_in("sealed", " \n"));
        assert!(is_signed_in("sealed", "0a1b:2c"));
    }
}
