//! Checks answers with commands, in the sandbox of agents' commands: without network access, in an empty directory.

use super::checks::CheckedAnswer;
use super::tasks::EvalTask;
use crate::agent_env::Sandboxes;
use crate::context::AppContext;
use crate::environment::create_private_dir;
use crate::failure::Failure;
use althing_protocol::{CommandsConfig, ContextAccess, Grant, Millis, ToolCall, ToolHost};
use althing_runner::{AcceptedByUser, RUN_COMMAND, Sandbox};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct CommandChecks {
    sandboxes: Sandboxes,
    dir: PathBuf,
}

impl CommandChecks {
    pub(super) async fn new(app: &AppContext) -> Result<Self, Failure> {
        let accepted = app.settings.unconfined.then(AcceptedByUser::explicitly);
        let sandboxes = Sandboxes::detect(&std::env::temp_dir(), accepted).await;
        if let Sandbox::Refused { why } = &sandboxes.local {
            return Err(Failure::usage(format!(
                "the tasks are checked with commands, and there is no working sandbox: {why}"
            ))
            .hint("--unconfined runs commands without a sandbox, with all your rights"));
        }
        let name = format!("althing-eval-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let dir = std::env::temp_dir().join(name);
        let made = create_private_dir(&dir);
        made.map_err(|error| Failure::usage(format!("{} cannot be created: {error}", dir.display())))?;
        Ok(Self { sandboxes, dir })
    }

    pub(super) async fn is_right(
        &self,
        (task, command, timeout): (&EvalTask, &str, Duration),
        answer: CheckedAnswer<'_>,
    ) -> Result<bool, Failure> {
        let dir = self.dir.join(format!("{:016x}", fastrand::u64(..)));
        let right = self.run(&dir, (task, command, timeout), answer).await;
        // An error does not matter: the parent directory is removed at the end.
        let _ = std::fs::remove_dir_all(&dir);
        right
    }

    async fn run(
        &self,
        dir: &Path,
        (task, command, timeout): (&EvalTask, &str, Duration),
        answer: CheckedAnswer<'_>,
    ) -> Result<bool, Failure> {
        let failed = |error: String| {
            Failure::usage(format!("task {}: the answer cannot be checked: {error}", task.id))
        };
        let (work, output_dir) = (dir.join("work"), dir.join("output"));
        let files = [("answer.txt", answer.text.to_owned()), ("task.json", task.line.to_string())];
        let prepare = || {
            create_private_dir(&work)?;
            create_private_dir(&output_dir)?;
            files.iter().try_for_each(|(name, text)| std::fs::write(work.join(name), text))
        };
        prepare().map_err(|error| failed(error.to_string()))?;
        let grant = Grant { workspace: Some(work), output_dir: Some(output_dir), ..Grant::default() };
        let config = CommandsConfig {
            timeout: Some(Millis(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))),
            ..CommandsConfig::default()
        };
        let launcher = self.sandboxes.launcher.clone();
        let host =
            crate::agent_env::command_host(&grant, self.sandboxes.local.clone(), (&config, &[]), launcher);
        let host = host.map_err(failed)?;
        let arguments = json!({ "command": command }).to_string();
        let call = ToolCall { id: "check".into(), name: RUN_COMMAND.into(), arguments };
        let outcome = host.call(&call, ContextAccess::ReadOnly).await;
        let how = outcome.content.lines().next().unwrap_or_default();
        // A command that was ended, for example at its time limit, did not accept the answer.
        if how.starts_with("exit code: ") || how.starts_with("ended") {
            return Ok(how == "exit code: 0");
        }
        Err(failed(outcome.content))
    }
}

impl Drop for CommandChecks {
    fn drop(&mut self) {
        // An error does not matter: what is left is in the system's directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
