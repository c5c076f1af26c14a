//! The texts of `run_command` that models read: tool description, arguments and results.

use crate::guarded::CommandEnd;
use crate::policy::CommandLimits;
use crate::sandbox::SandboxKind;
use althing_protocol::{ContextAccess, ToolOutcome, ToolSpec};
use serde::Deserialize;
use std::fmt::Write as _;
use std::time::Duration;

/// The maximum length of a command, in bytes. The kernel rejects arguments of 128 KiB or more (`MAX_ARG_STRLEN`).
const MAX_COMMAND: usize = 120 * 1024;

#[derive(Debug, Deserialize)]
pub(crate) struct Arguments {
    pub(crate) command: String,
    #[serde(default)]
    timeout_seconds: Option<u64>,
    #[serde(default)]
    pub(crate) cwd: Option<String>,
}

impl Arguments {
    /// The error is written for the model.
    pub(crate) fn parse(json: &str) -> Result<Self, String> {
        let arguments: Self =
            serde_json::from_str(json).map_err(|error| format!("Invalid arguments: {error}"))?;
        if arguments.command.trim().is_empty() {
            return Err("The command is empty.".to_owned());
        }
        if arguments.command.len() > MAX_COMMAND {
            return Err(format!(
                "The command is longer than {MAX_COMMAND} bytes: write it to a file in the workspace and run that."
            ));
        }
        if arguments.command.contains('\0') {
            return Err(
                "The command contains a NUL character, which cannot be passed to a program.".to_owned()
            );
        }
        Ok(arguments)
    }

    pub(crate) fn limit(&self, limits: &CommandLimits) -> Duration {
        let asked = self
            .timeout_seconds
            .map_or(limits.default_timeout, |seconds| Duration::from_secs(seconds.max(1)));
        asked.min(limits.max_timeout)
    }
}

pub(crate) fn spec(
    name: &str,
    kind: SandboxKind,
    network: bool,
    access: ContextAccess,
    limits: &CommandLimits,
) -> ToolSpec {
    let (default, max) = (limits.default_timeout.as_secs(), limits.max_timeout.as_secs());
    let mut description = format!(
        "Runs a shell command in your workspace and returns its exit code and output (stdout and stderr together). \
         Standard input is empty. A command that runs longer than timeout_seconds (default {default}, at most {max}) \
         is ended. When a command ends, everything it started is ended, too, even background processes. Long output \
         is shortened to its beginning and end, and the complete output is in a file whose name is returned."
    );
    if kind != SandboxKind::Unconfined {
        description.push_str(match access {
            ContextAccess::ReadOnly => " You can write only to your workspace.",
            ContextAccess::Writable => {
                " You can write only to your workspace and to the writable context paths."
            }
        });
        if !network {
            description.push_str(" There is no network.");
        }
    }
    description.push_str(match kind {
        SandboxKind::Bubblewrap => " /tmp is empty at the start of each command.",
        SandboxKind::Landlock => {
            " /tmp is not writable: use $TMPDIR, which is empty at the start of each command. Unix sockets, file \
             watches, and changing the mode, owner or times of a file are not permitted."
        }
        SandboxKind::Docker | SandboxKind::Unconfined | SandboxKind::Refused => "",
    });
    if kind == SandboxKind::Landlock && access == ContextAccess::Writable {
        description.push_str(
            " Files directly in the top directory of a context path can be changed but not created or deleted by \
             commands: use the file tools for that.",
        );
    }
    let parameters = serde_json::json!({
        "type": "object",
        "properties": {
            "command": { "type": "string", "description": "The command, as for sh -c." },
            "timeout_seconds": { "type": "integer", "minimum": 1, "maximum": max },
            "cwd": { "type": "string", "description": "The working directory; defaults to the workspace." },
        },
        "required": ["command"],
        "additionalProperties": false,
    });
    ToolSpec { name: name.to_owned(), description, parameters }
}

pub(crate) fn refused(why: impl Into<String>) -> ToolOutcome {
    ToolOutcome { content: why.into(), is_error: true }
}

pub(crate) fn outcome(end: CommandEnd, limit: Duration, output: &str, note: Option<&str>) -> ToolOutcome {
    let fatal = end.limit.filter(|limit| limit.is_fatal());
    let mut how = match (end.timed_out, end.code, end.signal) {
        (true, _, _) => format!("ended: the time limit of {} s was reached", limit.as_secs()),
        (false, _, Some(signal)) => format!("ended by signal {signal}{}", name_of(signal.into())),
        // Shells and sandboxes report their child's signal as 128 plus its number.
        (false, Some(code @ 129..=192), None) => {
            format!("exit code: {code} (probably ended by signal {}{})", code - 128, name_of(code - 128))
        }
        (false, Some(code), None) => format!("exit code: {code}"),
        (false, None, None) => "ended with an unknown exit code".to_owned(),
    };
    if let Some(limit) = fatal {
        how = format!("ended: {limit}");
    }
    if let Some(limit) = end.limit.filter(|limit| !limit.is_fatal()) {
        let _ = write!(how, "\nnote: {limit}");
    }
    if let Some(note) = note {
        let _ = write!(how, "\nnote: {note}");
    }
    let body = if output.is_empty() { "(no output)" } else { output };
    ToolOutcome {
        content: format!("{how}\n{body}"),
        is_error: end.timed_out || fatal.is_some() || end.signal.is_some() || end.code.is_none(),
    }
}

/// Whether bubblewrap itself failed. A command that ends with code 1 and prints the same prefix is wrongly reported
/// as not run.
pub(crate) fn is_sandbox_failure(end: CommandEnd, output: &str) -> bool {
    end.code == Some(1) && output.starts_with("bwrap: ")
}

fn name_of(signal: i64) -> &'static str {
    match signal {
        1 => ", SIGHUP",
        2 => ", SIGINT",
        3 => ", SIGQUIT",
        4 => ", SIGILL",
        6 => ", SIGABRT",
        8 => ", SIGFPE",
        9 => ", SIGKILL",
        11 => ", SIGSEGV",
        13 => ", SIGPIPE",
        15 => ", SIGTERM",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_stays_within_its_bounds() {
        let limits = CommandLimits::default();
        let limit = |json: &str| Arguments::parse(json).unwrap().limit(&limits).as_secs();
        assert_eq!(limit(r#"{"command":"true"}"#), 120);
        assert_eq!(limit(r#"{"command":"true","timeout_seconds":0}"#), 1);
        assert_eq!(limit(r#"{"command":"true","timeout_seconds":99999999}"#), 3600);
    }

    #[test]
    fn invalid_arguments_are_refused_with_a_message() {
        for json in ["", "[]", "{}", r#"{"command":7}"#, r#"{"command":" "}"#, r#"{"command":"a\u0000b"}"#] {
            assert!(Arguments::parse(json).is_err(), "{json}");
        }
        let long = serde_json::json!({ "command": "x".repeat(MAX_COMMAND + 1) }).to_string();
        assert!(Arguments::parse(&long).unwrap_err().contains("write it to a file"));
    }
}
