//! A `RunService` whose runs follow instructions in their task, for the tests and for the example that serves it.
//!
//! `say X` ends at once with X; `take MS X` reports four steps of progress within that time and ends with X; `ask`
//! waits for an answer and returns it; `offer` does the same, with a default that applies after an hour; `hold` runs
//! until it is cancelled; `fail X` fails; `refuse X` is not started.

use althing_mcp::{RunDir, RunFeed, RunFile, RunOutcome, RunService, RunSummary, RunUpdate};
use althing_protocol::{
    BoxFuture, Decision, Interaction, InteractionId, InteractionKind, LaunchRun, Millis, RunStatus, ToolSpec,
};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

#[derive(Default)]
pub struct Scripted {
    runs: Mutex<Vec<Arc<Run>>>,
}

struct Run {
    id: String,
    launch: LaunchRun,
    updates: watch::Sender<Vec<RunUpdate>>,
    /// The decision that the run received, or that it was cancelled.
    signal: watch::Sender<Option<Signal>>,
}

#[derive(Clone)]
enum Signal {
    Decision(Decision),
    Cancel,
}

#[allow(dead_code, reason = "the example has its own use of it")]
pub const GUIDANCE: &str = "Hand work that deserves several agents to `launch_run`.";

impl Scripted {
    #[allow(dead_code, reason = "only the tests look")]
    pub fn launched(&self) -> Vec<LaunchRun> {
        self.runs.lock().unwrap().iter().map(|run| run.launch.clone()).collect()
    }

    fn find(&self, id: &str) -> Option<Arc<Run>> {
        self.runs.lock().unwrap().iter().find(|run| run.id == id).cloned()
    }
}

impl Run {
    fn end(&self) -> Option<RunOutcome> {
        let ended = self.updates.borrow().last().cloned();
        ended.and_then(|update| if let RunUpdate::Ended(result) = update { Some(*result) } else { None })
    }

    fn publish(&self, update: RunUpdate) {
        self.updates.send_modify(|all| all.push(update));
    }

    fn finish(&self, status: RunStatus, answer: Option<&str>) {
        let result = json!({
            "run_id": self.id, "task": self.launch.task, "status": status,
            "modes": {"agent_mode": "multi", "refinement": true, "planning": false},
            "final_answer": answer, "workspace_path": null,
            "coordination_summary": {"winner": null, "presenter": null, "strategy": "winner_present",
                "overridden": false, "rounds": 1, "votes": {}, "ballots": [], "agents": []},
            "context_path_writes": [], "plan": null, "follow_up": null,
            "usage": {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "calls": 0},
            "duration_ms": 1, "log_dir": "logs", "error": null,
        });
        self.publish(RunUpdate::Ended(Box::new(serde_json::from_value(result).unwrap())));
    }

    fn view(&self) -> RunSummary {
        let updates = self.updates.borrow();
        let progress = updates.iter().rev().find_map(|update| match update {
            RunUpdate::Line(line) => Some(line.clone()),
            _ => None,
        });
        let asks = updates.iter().find_map(|update| match update {
            RunUpdate::Question(interaction) => Some((**interaction).clone()),
            _ => None,
        });
        drop(updates);
        let status = self.end().map(|result| result.status());
        RunSummary {
            run_id: self.id.clone(),
            task: self.launch.task.clone(),
            status,
            progress,
            interactions: asks.filter(|_| status.is_none()).into_iter().collect(),
            has_workspace: status == Some(RunStatus::Completed),
        }
    }

    async fn execute(self: Arc<Self>) {
        let task = self.launch.task.clone();
        let (what, rest) = task.split_once(' ').unwrap_or((&task, ""));
        let mut signal = self.signal.subscribe();
        match what {
            "take" => {
                let (time, answer) = rest.split_once(' ').unwrap_or((rest, ""));
                let step = Duration::from_millis(time.parse::<u64>().unwrap() / 4);
                for number in 1..=4 {
                    tokio::select! {
                        () = tokio::time::sleep(step) => self.publish(RunUpdate::Line(format!("step {number} of 4"))),
                        _ = signal.wait_for(Option::is_some) => return self.finish(RunStatus::Cancelled, None),
                    }
                }
                self.finish(RunStatus::Completed, Some(answer));
            }
            "ask" | "offer" => {
                let id = InteractionId::new("i1");
                let countdown = (what == "offer").then(|| Millis::from_secs(3600));
                let asks = Interaction { id, kind: InteractionKind::Interrupted, countdown };
                self.publish(RunUpdate::Question(Box::new(asks)));
                let got = signal.wait_for(Option::is_some).await.unwrap().clone();
                match got {
                    Some(Signal::Decision(decision)) => {
                        let text = serde_json::to_string(&decision).unwrap();
                        self.finish(RunStatus::Completed, Some(&text));
                    }
                    _ => self.finish(RunStatus::Cancelled, None),
                }
            }
            "hold" => {
                signal.wait_for(Option::is_some).await.unwrap();
                self.finish(RunStatus::Cancelled, Some("what there was"));
            }
            "fail" => self.finish(RunStatus::Failed, None),
            _ => self.finish(RunStatus::Completed, Some(rest)),
        }
    }
}

struct Feed {
    updates: watch::Receiver<Vec<RunUpdate>>,
    seen: usize,
}

impl RunFeed for Feed {
    fn next(&mut self) -> BoxFuture<'_, RunUpdate> {
        Box::pin(async {
            let seen = self.seen;
            let all = self.updates.wait_for(|all| all.len() > seen).await.unwrap();
            let next = all[seen].clone();
            drop(all);
            if !matches!(next, RunUpdate::Ended(_)) {
                self.seen += 1;
            }
            next
        })
    }
}

impl RunService for Scripted {
    fn launch_tool(&self) -> ToolSpec {
        ToolSpec {
            name: "launch_run".to_owned(),
            description: "Starts a run of agents.".to_owned(),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["task"],
                "properties": {
                    "task": {"type": "string", "description": "What to accomplish."},
                    "context": {"type": "string"},
                    "agent_mode": {"type": "string", "enum": ["single", "multi"]},
                    "agents": {"type": "array", "items": {"type": "string"}},
                    "refinement": {"type": "boolean"},
                    "planning_mode": {"type": "boolean"},
                    "context_paths": {"type": "array", "items": {
                        "type": "object", "additionalProperties": false, "required": ["path"],
                        "properties": {
                            "path": {"type": "string"},
                            "permission": {"type": "string", "enum": ["read", "write"]}}}},
                    "agent_system_prompts": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            }),
        }
    }

    fn approval_question(&self, launch: &LaunchRun) -> Result<String, String> {
        if let Some(reason) = launch.task.strip_prefix("refuse ") {
            return Err(reason.to_owned());
        }
        Ok(format!("Launch this run? {}", launch.task))
    }

    fn launch(&self, launch: LaunchRun, _approved: bool) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            if let Some(reason) = launch.task.strip_prefix("refuse ") {
                return Err(reason.to_owned());
            }
            let mut runs = self.runs.lock().unwrap();
            let id = format!("s1.r{}", runs.len() + 1);
            let (updates, signal) = (watch::Sender::default(), watch::Sender::default());
            let run = Arc::new(Run { id: id.clone(), launch, updates, signal });
            runs.push(run.clone());
            tokio::spawn(run.execute());
            Ok(id)
        })
    }

    fn view<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunSummary>> {
        Box::pin(async move { self.find(run).map(|run| run.view()) })
    }

    fn list(&self, most: usize) -> BoxFuture<'_, Vec<RunSummary>> {
        Box::pin(async move {
            let runs = self.runs.lock().unwrap();
            runs.iter().rev().take(most).map(|run| run.view()).collect()
        })
    }

    fn follow<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<Box<dyn RunFeed>>> {
        Box::pin(async move {
            let run = self.find(run)?;
            let updates = run.updates.subscribe();
            let asks = run.view().interactions.len();
            // Only updates from now on, except that an open question or the end is always delivered.
            let said = updates.borrow().len();
            let seen = if run.end().is_some() { said - 1 } else { said - asks.min(said) };
            Some(Box::new(Feed { updates, seen }) as Box<dyn RunFeed>)
        })
    }

    fn result<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunOutcome>> {
        Box::pin(async move { self.find(run)?.end() })
    }

    fn cancel<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let run = self.find(run).ok_or("no such run")?;
            run.signal.send_replace(Some(Signal::Cancel));
            Ok(())
        })
    }

    fn answer<'a>(
        &'a self,
        run: &'a str,
        interaction: InteractionId,
        decision: Decision,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let run = self.find(run).ok_or("no such run")?;
            if !run.view().interactions.iter().any(|open| open.id == interaction) {
                return Err(format!("parameter `interaction_id`: `{interaction}` is not open"));
            }
            run.signal.send_replace(Some(Signal::Decision(decision)));
            Ok(())
        })
    }

    fn file<'a>(
        &'a self,
        run: &'a str,
        place: RunDir,
        path: &'a str,
    ) -> BoxFuture<'a, Result<RunFile, String>> {
        Box::pin(async move {
            self.find(run).ok_or("no such run")?;
            match (place, path) {
                (RunDir::Log, "") => Ok(RunFile::Directory(vec!["events.jsonl".to_owned()])),
                (RunDir::Log, "events.jsonl") => Ok(RunFile::Text("{\"seq\":1}\n".to_owned())),
                (RunDir::Workspace, "notes/a.md") => Ok(RunFile::Text("# Notes\n".to_owned())),
                _ => Err(format!("there is no `{path}`")),
            }
        })
    }
}
