//! The report on a config: every problem, and the settings if there is no error.

use althing_protocol::{Config, Secret};
use serde_json::{Value, json};

use crate::diagnostic::Diagnostic;
use crate::trust::TrustRequirement;

/// The outcome of reading a config or a workflow.
#[derive(Clone, Debug)]
pub struct ConfigReport {
    /// The file's name, as given.
    pub file: String,
    /// The errors in file order; with an error, the config cannot be used.
    pub errors: Vec<Diagnostic>,
    /// The warnings in file order; the config can still be used.
    pub warnings: Vec<Diagnostic>,
    /// The settings; `None` if there is an error, and for a workflow.
    pub config: Option<LoadedConfig>,
    /// The secrets to mask in everything that is written. Empty if the text could not be parsed.
    pub secrets: Vec<Secret>,
}

/// A config without errors.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The settings.
    pub config: Config,
    pub(crate) plain_progress: bool,
    pub(crate) needs_trust: Vec<TrustRequirement>,
}

impl LoadedConfig {
    /// What the user must accept before a config is used that Althing found in the working directory: variables, CLI
    /// agents, and every key that may not be set before trust.
    pub fn needs_trust(&self) -> &[TrustRequirement] {
        &self.needs_trust
    }

    /// Whether the config asks for plain progress instead of the full screen.
    pub fn plain_progress(&self) -> bool {
        self.plain_progress
    }
}

impl ConfigReport {
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

    /// The file's name and problems, without settings and secrets.
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
