//! API keys that only a `.env` file in the working directory sets. The owner of a key's account may read what is sent
//! with the key, and somebody else may have written that file. So agents that the user has not named use such a key
//! only if the user trusts the file; for agents that the user has named, a notice says where the key comes from.

use crate::context::AppContext;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::team::digest;
use crate::trust::Trust;
use althing_protocol::{BackendConfig, Config};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The API keys of a config's agents that only the found `.env` sets, by their variables.
pub(crate) fn of_config(config: &Config, environment: &Environment) -> Vec<String> {
    let chat = config.interactive.iter().filter_map(|chat| chat.backend.as_ref());
    let backends = config.agents.iter().map(|agent| &agent.backend).chain(chat);
    let key = |backend: &BackendConfig| Some(backend.api_key.as_ref()?.reveal().to_owned());
    let keys: BTreeSet<String> = backends.filter_map(key).collect();
    let found = environment.only_found();
    found.filter(|(_, value)| keys.contains(value.trim())).map(|(name, _)| name.to_owned()).collect()
}

/// Whether the user trusts the `.env` file that sets these keys, or accepts it now.
pub(crate) fn are_accepted(names: &[String], app: &AppContext) -> bool {
    let file = EnvFile::of(&app.environment);
    let trust = file.trust();
    if app.settings.trust {
        trust.accept(app);
        return true;
    }
    let would: Vec<String> = names
        .iter()
        .map(|name| {
            format!("{name}: would send your tasks and files to the account of this API key, whose owner may read them")
        })
        .collect();
    trust.is_given(&app.environment) || trust.ask(&would, app).is_some_and(|answer| answer.is_ok())
}

/// For agents that the user has named: where their keys come from, unless the user trusts the file.
pub(crate) fn notice(config: &Config, app: &AppContext) -> Option<String> {
    let names = of_config(config, &app.environment);
    let file = EnvFile::of(&app.environment);
    if app.settings.trust && !names.is_empty() {
        file.trust().accept(app);
    }
    let is_needed = !names.is_empty() && !app.settings.trust && !file.trust().is_given(&app.environment);
    is_needed.then(|| {
        format!(
            "{} of your agents comes from {}: the owner of such a key may read what is sent with it (if the file is yours, \
             pass `--trust` once)",
            names.join(", "),
            file.path.display()
        )
    })
}

/// For agents that the user has not named: why these keys are not used.
pub(crate) fn unused(names: &[String], environment: &Environment) -> String {
    format!(
        "not used: {} from {}, a file that was found in this directory, because the owner of such a key may read what is sent \
         with it",
        names.join(", "),
        EnvFile::of(environment).path.display()
    )
}

/// Refuses keys that the user does not accept.
pub(crate) fn refused(names: &[String], environment: &Environment) -> Failure {
    let message = format!("{}.\nNothing was started or sent.", unused(names, environment));
    let hint = "if the file is yours, accept it with --trust, or move the key to ~/.config/althing/.env";
    Failure { is_question: true, ..Failure::usage(message).hint(hint) }
}

struct EnvFile {
    path: PathBuf,
    digest: String,
}

impl EnvFile {
    fn of(environment: &Environment) -> Self {
        let cwd = environment.cwd.canonicalize().unwrap_or_else(|_| environment.cwd.clone());
        Self { path: cwd.join(".env"), digest: digest(&environment.found_text()) }
    }

    fn trust(&self) -> Trust<'_> {
        Trust { path: &self.path, digest: &self.digest }
    }
}
