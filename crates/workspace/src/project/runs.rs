//! `runs/<run>/run_description.json`: the task and result of each run of a project. It is written when the run begins
//! and again when it ends, so that interrupted runs are listed as well.

use super::{ProjectError, ProjectWorkspace, RUNS, write_durably};
use crate::confine::ConfinedDir;
use crate::guidance::read_prefix;
use althing_disk::DiskError;
use althing_disk::names::is_plain_name;
use althing_protocol::{Modes, RunResult, Timestamp};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

const FILE: &str = "run_description.json";
const MAX_BYTES: usize = 8 << 20;

/// The summary of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRun {
    /// The run's id.
    pub id: String,
    /// The run's task.
    pub task: String,
    /// `running`, or how the run ended.
    pub status: String,
    /// When the run began, if that is known.
    pub started_at: Option<Timestamp>,
}

impl ProjectWorkspace {
    /// Records that a run began.
    pub fn begin_run(
        &self,
        id: &str,
        task: &str,
        modes: Modes,
        log_dir: &str,
        at: Timestamp,
    ) -> Result<(), ProjectError> {
        let description = json!({
            "run_id": id, "task": task, "status": "running", "modes": modes, "final_answer": null,
            "workspace_path": null, "context_path_writes": [], "plan": null, "follow_up": null,
            "log_dir": log_dir, "error": null, "started_at": at,
        });
        self.write_run(id, &description)
    }

    /// Records how a run ended.
    pub fn end_run(&self, result: &RunResult) -> Result<(), ProjectError> {
        let started = self.description(&result.run_id)?.and_then(|known| known.get("started_at").cloned());
        let path = self.dir().join(RUNS).join(&result.run_id).join(FILE);
        let description = serde_json::to_value(result).map_err(io::Error::from);
        let mut description = description.map_err(DiskError::io("write", &path))?;
        if let (Value::Object(fields), Some(started)) = (&mut description, started) {
            fields.insert("started_at".to_owned(), started);
        }
        self.write_run(&result.run_id, &description)
    }

    /// The description of a run; `None` if there is none.
    pub fn description(&self, id: &str) -> Result<Option<Value>, ProjectError> {
        let path = self.dir().join(RUNS).join(id).join(FILE);
        if !is_plain_name(id) {
            return Ok(None);
        }
        let opened = self
            .root
            .open_dir_path(&Path::new(RUNS).join(id))
            .and_then(|dir| dir.open_file(OsStr::new(FILE)));
        let text = match opened {
            Ok((file, _)) => read_prefix(file, MAX_BYTES),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => Err(e),
        };
        let broken = |why: String| ProjectError::Broken { path: path.clone(), why };
        let text = text.map_err(DiskError::io("read", &path))?;
        let (text, _) = text.ok_or_else(|| broken("it is not UTF-8 text".to_owned()))?;
        serde_json::from_str(&text).map(Some).map_err(|e| broken(e.to_string()))
    }

    /// The runs whose description is readable, in descending order of their ids.
    pub fn runs(&self) -> Result<Vec<ProjectRun>, ProjectError> {
        let path = self.dir().join(RUNS);
        let names = self.root.open_dir(OsStr::new(RUNS)).and_then(|dir| dir.names());
        let names = names.map_err(DiskError::io("list", &path))?;
        let mut ids: Vec<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        // A run's id begins with the time at which its session was created.
        ids.sort_by(|a, b| b.cmp(a));
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let run = |id: String| {
            let known = self.description(&id).ok().flatten()?;
            let started_at = known.get("started_at").and_then(|at| serde_json::from_value(at.clone()).ok());
            Some(ProjectRun { id, task: text(&known, "task"), status: text(&known, "status"), started_at })
        };
        Ok(ids.into_iter().filter_map(run).collect())
    }

    fn write_run(&self, id: &str, description: &Value) -> Result<(), ProjectError> {
        if !is_plain_name(id) {
            return Err(ProjectError::Refused(format!("`{}` is not a run id", id.escape_debug())));
        }
        let path = self.dir().join(RUNS).join(id).join(FILE);
        let make = |dir: ConfinedDir| dir.make_dir(OsStr::new(id), 0o777);
        let dir = self.root.make_dir(OsStr::new(RUNS), 0o777).and_then(make);
        let written = dir.and_then(|dir| write_durably(&dir, FILE, format!("{description:#}\n").as_bytes()));
        Ok(written.map_err(DiskError::io("write", &path))?)
    }
}
