//! The outcome of reading a config: every problem, and the settings if there is no error.

use althing_protocol::{Config, Secret};
use serde_json::{Value, json};

use crate::diagnostic::Diagnostic;
use crate::trust::TrustRequirement;

/// The outcome of reading a config or a workflow.
#[derive(Clone, Debug)]
pub struct ConfigReport {
    /// The file's name, as given.
    pub file: String,
    /// The problems that make the config unusable, in file order.
    pub errors: Vec<Diagnostic>,
    /// The problems with which the config can still be used, in file order: for example keys that have no effect.
    pub warnings: Vec<Diagnostic>,
    /// The settings, if there is no error; never for a workflow.
    pub config: Option<LoadedConfig>,
    /// The secrets in the file and its variables, to be masked in everything that is written. If there are errors, the
    /// list still has the secrets that are written in the file or named by it; if the text could not be parsed, the
    /// list is empty.
    pub secrets: Vec<Secret>,
}

/// A config that can be used.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The settings.
    pub config: Config,
    pub(crate) plain_progress: bool,
    pub(crate) needs_trust: Vec<TrustRequirement>,
}

impl LoadedConfig {
    /// What the user must accept before this config is used, if the user did not name the file and Althing found it
    /// in the working directory: every `${VARIABLE}`, every CLI agent, and every key that is not marked
    /// `before_trust` in the table of keys, unless the key's value switches it off.
    pub fn needs_trust(&self) -> &[TrustRequirement] {
        &self.needs_trust
    }

    /// Whether the config asks for plain progress instead of the full screen (`ui.display_type: simple`).
    pub fn plain_progress(&self) -> bool {
        self.plain_progress
    }
}

impl ConfigReport {
    /// A report without problems.
    pub(crate) fn empty(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            errors: Vec::new(),
            warnings: Vec::new(),
            config: None,
            secrets: Vec::new(),
        }
    }

    /// Whether the config can be used.
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// The file's name, its validity and its problems as JSON, without settings and secrets.
    pub fn to_json(&self) -> Value {
        let list = |diagnostics: &[Diagnostic]| -> Value { diagnostics.iter().map(entry).collect() };
        json!({
            "file": self.file,
            "valid": self.is_valid(),
            "errors": list(&self.errors),
            "warnings": list(&self.warnings),
        })
    }
}

fn entry(diagnostic: &Diagnostic) -> Value {
    json!({
        "message": diagnostic.message,
        "location": diagnostic.location,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "suggestion": diagnostic.suggestion,
    })
}
