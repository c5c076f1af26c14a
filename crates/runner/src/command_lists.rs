//! The config's allow and block lists for commands. They guide an agent and are not a security boundary, because a
//! shell can express the same command in many ways; the sandbox decides what a command can access.

use crate::policy::PolicyError;
use regex::{Regex, RegexBuilder};

const LARGEST: usize = 1 << 20;

/// Regular expressions that allow or block commands; each is matched at the beginning of a command.
#[derive(Clone, Debug, Default)]
pub struct CommandLists {
    allowed: Vec<Pattern>,
    blocked: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    written: String,
    compiled: Regex,
}

impl Pattern {
    fn new(written: &String) -> Result<Self, PolicyError> {
        let compiled = RegexBuilder::new(&format!(r"\A(?:{written})"))
            .size_limit(LARGEST)
            .dot_matches_new_line(true)
            .build()
            .map_err(|error| PolicyError::Pattern { pattern: written.clone(), why: error.to_string() })?;
        Ok(Self { written: written.clone(), compiled })
    }
}

impl CommandLists {
    /// Compiles the patterns. An empty `allowed` list allows everything that is not blocked.
    pub fn new(allowed: &[String], blocked: &[String]) -> Result<Self, PolicyError> {
        let all = |patterns: &[String]| patterns.iter().map(Pattern::new).collect::<Result<_, _>>();
        Ok(Self { allowed: all(allowed)?, blocked: all(blocked)? })
    }

    /// The error is written for the model.
    pub(crate) fn check(&self, command: &str) -> Result<(), String> {
        let command = command.trim_start();
        if let Some(pattern) = self.blocked.iter().find(|pattern| pattern.compiled.is_match(command)) {
            return Err(format!(
                "This command is not allowed: the configuration blocks what matches `{}`. Nothing was run.",
                pattern.written
            ));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(|pattern| pattern.compiled.is_match(command))
        {
            let patterns: Vec<String> =
                self.allowed.iter().map(|pattern| format!("`{}`", pattern.written)).collect();
            return Err(format!(
                "This command is not allowed: the configuration allows only what matches {}. Nothing was run.",
                patterns.join(" or ")
            ));
        }
        Ok(())
    }
}
