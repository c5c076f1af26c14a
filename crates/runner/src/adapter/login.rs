//! Whether the user has signed in to a CLI agent, as far as its files and the environment show.

use super::OwnPath;
use std::path::{Path, PathBuf};

/// What shows that the user has signed in to a CLI agent. Any one sign is enough.
#[derive(Clone, Debug)]
pub struct LoginSigns {
    /// Variables that hold a key, or that select a service with credentials of its own.
    pub variables: &'static [&'static str],
    /// Files that exist once the user has signed in, because they hold the credentials.
    pub credentials: Vec<OwnPath>,
    /// Settings files that can name a key or another service, each with the words that show that it does.
    pub settings: Vec<(OwnPath, &'static [&'static str])>,
    /// How the user can sign in.
    pub hint: &'static str,
}

impl LoginSigns {
    /// How the user can sign in; `None` if a sign is found. `env` looks up a variable.
    pub fn missing(&self, home: &Path, env: &dyn Fn(&str) -> Option<PathBuf>) -> Option<&'static str> {
        let has_variable =
            self.variables.iter().any(|name| env(name).is_some_and(|value| !value.as_os_str().is_empty()));
        let has_credentials = || self.credentials.iter().any(|file| file.path(home, env).exists());
        let has_settings = || {
            self.settings.iter().any(|(file, words)| {
                let text = std::fs::read_to_string(file.path(home, env)).unwrap_or_default();
                words.iter().any(|word| text.contains(word))
            })
        };
        (!has_variable && !has_credentials() && !has_settings()).then_some(self.hint)
    }
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
        credentials: vec![in_home("auth.json"), in_home(".credentials.json")],
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
        credentials: vec![in_home("oauth_creds.json"), in_home("gemini-credentials.json")],
        settings: vec![
            (in_home(".env"), &["API_KEY", "GOOGLE_"]),
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
            settings: vec![(OwnPath::new(".toy/config"), &["provider"])],
            hint: "sign in",
        };
        let nothing = |_: &str| None;
        assert_eq!(signs.missing(home, &nothing), Some("sign in"));
        assert_eq!(signs.missing(home, &|_| Some(PathBuf::new())), Some("sign in"), "an empty variable");
        assert_eq!(signs.missing(home, &|name| (name == "TOY_KEY").then(|| "k".into())), None);
        std::fs::create_dir(home.join(".toy")).unwrap();
        std::fs::write(home.join(".toy/config"), "model = x").unwrap();
        assert_eq!(signs.missing(home, &nothing), Some("sign in"));
        std::fs::write(home.join(".toy/config"), "provider = x").unwrap();
        assert_eq!(signs.missing(home, &nothing), None);
        std::fs::remove_file(home.join(".toy/config")).unwrap();
        std::fs::write(home.join(".toy/auth.json"), "{}").unwrap();
        assert_eq!(signs.missing(home, &nothing), None);
    }
}
