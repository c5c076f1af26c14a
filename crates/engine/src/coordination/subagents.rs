//! Subagents: a `spawn_subagents` call starts other runs, and their answers are the result of the call. If they work in
//! the background, the call returns at once, and `wait_for_subagents` returns the answers. A subagent is stopped when
//! the attempt that started it ends; if that attempt is resumed after an interruption, so is the subagent.

use super::interpret_reply::NextStep;
use super::state::{MemberAttempt, MemberState, RunState};
use super::{Consequence, Coordination, SideTask, SideTaskKind};
use crate::summary::structural_summary;
use crate::tools::{self, PLAN_TASK, SPAWN, SubTask, WAIT};
use crate::workspaces::workspace_of;
use althing_protocol::{
    AgentMode, ContextPath, Fact, Item, Member, Modes, Op, Origin, Purpose, RunLimits, RunResult, RunRules,
    RunSpec, RunStatus, SubagentOf, SubagentsConfig, TaskId, TaskSpec, ToolCall, Verdict,
};
use althing_text::{Markers, count, fnv1a, text_with_markers};
use std::fmt::Write;

const MAX_ANSWER_BYTES: usize = 20_000;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subagent {
    pub(crate) task: TaskId,
    pub(crate) member_index: usize,
    pub(crate) of: SubagentOf,
    pub(crate) end: Option<SubagentEnd>,
    pub(crate) stopped: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubagentEnd {
    status: RunStatus,
    answer: Option<String>,
    error: Option<String>,
    /// The directory of the subagent's result files.
    log_dir: String,
    /// The workspace whose files must still be imported. None if importing was attempted, if the subagent has no
    /// workspace, or if the calling agent has no tools.
    workspace: Option<String>,
    imported: Option<Result<(), String>>,
}

impl Subagent {
    pub(crate) fn name(&self) -> &str {
        self.task.as_str().rsplit('.').next().unwrap_or_default()
    }

    fn belongs_to(&self, member_index: usize, attempt: &MemberAttempt) -> bool {
        self.member_index == member_index && self.of.attempt == attempt.origin
    }

    fn is_over(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.workspace.is_none())
    }

    fn report(&self, text: &mut String, markers: Markers<'_>) {
        let Some(end) = &self.end else { return };
        let status = match end.status {
            RunStatus::Completed => "done",
            RunStatus::Partial => "reached a limit; partial result",
            RunStatus::Cancelled => "stopped",
            RunStatus::Failed => "failed",
        };
        let name = self.name();
        let _ = writeln!(text, "{name}: {status}");
        match (&end.answer, &end.error) {
            (Some(answer), _) => {
                let whole = format!("the whole text is in {}/final_answer.md", end.log_dir);
                let answer = structural_summary(answer, MAX_ANSWER_BYTES, &whole);
                markers.enclose(text, &format!("answer of {name}"), &answer);
            }
            (None, Some(error)) => markers.enclose(text, &format!("error of {name}"), error),
            (None, None) => text.push_str("It gave no answer.\n"),
        }
        match &end.imported {
            Some(Ok(())) => {
                let _ = writeln!(text, "Its files are in your workspace, under {}.", subagent_dir(name));
            }
            Some(Err(error)) => {
                text.push_str("Its files could not be copied into your workspace:\n");
                markers.enclose(text, "why", error);
            }
            None => {}
        }
    }
}

/// The directory for a subagent's files, relative to the workspace of the calling agent.
fn subagent_dir(name: &str) -> String {
    format!("subagents/{name}")
}

pub(super) enum RunToolAction {
    /// A result for the call; the flag is true if it is an error.
    Result(String, bool),
    /// Tasks that must be started; the flag is true if they work in the background.
    Start(Vec<(u32, SubTask)>, bool),
    Wait,
}

impl RunState {
    /// The settings for subagents; None if the attempt may not start any.
    pub(crate) fn may_spawn(&self, purpose: Purpose) -> Option<SubagentsConfig> {
        let contributes = matches!(purpose, Purpose::Answer | Purpose::Judge { may_answer: true, .. });
        self.spec.rules.subagents.filter(|_| contributes)
    }

    fn subagents_of<'s>(
        &'s self,
        member_index: usize,
        attempt: &'s MemberAttempt,
    ) -> impl Iterator<Item = &'s Subagent> {
        self.subagents.iter().filter(move |subagent| subagent.belongs_to(member_index, attempt))
    }

    pub(super) fn spawn(
        &self,
        settings: &SubagentsConfig,
        (member_index, attempt): (usize, &MemberAttempt),
        step: usize,
        call: &ToolCall,
    ) -> RunToolAction {
        let (tasks, background) = match tools::spawn(call) {
            Ok(asked) => asked,
            Err(problem) => return RunToolAction::Result(problem, true),
        };
        if background && !settings.background {
            return RunToolAction::Result("Subagents cannot work in the background here.".into(), true);
        }
        let of_call = |subagent: &&Subagent| subagent.of.step == step && subagent.of.call == call.id;
        let started: Vec<&Subagent> = self.subagents_of(member_index, attempt).filter(of_call).collect();
        if started.len() < tasks.len() {
            let running =
                self.subagents_of(member_index, attempt).filter(|subagent| subagent.end.is_none()).count();
            // A call that has already started subagents passed this check before a crash interrupted it.
            if started.is_empty() && running + tasks.len() > settings.max_concurrent as usize {
                let most = count(u64::from(settings.max_concurrent), "subagent");
                return RunToolAction::Result(
                    format!("Nothing was started: at most {most} may work at once; now at work: {running}."),
                    true,
                );
            }
            let missing = (1..).zip(tasks).filter(|(nth, _)| !started.iter().any(|it| it.of.nth == *nth));
            return RunToolAction::Start(missing.collect(), background);
        }
        if background {
            let names: Vec<&str> = started.iter().map(|subagent| subagent.name()).collect();
            let text = format!(
                "Started: {}. `{WAIT}` returns their results. Those still at work when your turn ends are stopped.",
                names.join(", ")
            );
            return RunToolAction::Result(text, false);
        }
        self.reports(&started)
    }

    /// Reports the background subagents started since the previous `wait_for_subagents` call of the attempt, once all
    /// of them have ended.
    pub(super) fn wait(
        &self,
        (member_index, attempt): (usize, &MemberAttempt),
        step: usize,
    ) -> RunToolAction {
        let waited = attempt.steps_that_call(WAIT).filter(|earlier| *earlier < step).last();
        let news = |subagent: &&Subagent| {
            subagent.of.background && waited.is_none_or(|waited| subagent.of.step > waited)
        };
        let started: Vec<&Subagent> = self.subagents_of(member_index, attempt).filter(news).collect();
        self.reports(&started)
    }
    /// The reports of subagents of one attempt, once all of them have ended.
    fn reports(&self, subagents: &[&Subagent]) -> RunToolAction {
        let Some(first) = subagents.first() else {
            return RunToolAction::Result("There are no subagents to wait for.".into(), false);
        };
        if !subagents.iter().all(|subagent| subagent.is_over()) {
            return RunToolAction::Wait;
        }
        // With the conversation's seed, the marker lines of this result would contain the conversation's token. The
        // conversation's token must not occur in any text, so all messages would get another one.
        let seed = self.spec.tie_break_seed ^ fnv1a(first.task.as_str());
        let text = text_with_markers(seed, |markers| {
            let mut text = String::new();
            for subagent in subagents {
                subagent.report(&mut text, markers);
            }
            text
        });
        RunToolAction::Result(text, false)
    }
}

impl Coordination {
    pub(super) fn start_subagents(&self, member_index: usize, next: &NextStep) -> Vec<Consequence> {
        let (NextStep::Spawn { call, step, tasks, background }, Some(member)) =
            (next, self.state.members.get(member_index))
        else {
            return Vec::new();
        };
        let Some(attempt) = &member.attempt else { return Vec::new() };
        let mut facts = Vec::new();
        for (n, (nth, sub_task)) in (self.state.subagents.len() + 1..).zip(tasks) {
            let id = TaskId::new(format!("{}.s{n}", self.task));
            let of = SubagentOf {
                work: self.work(member_index),
                attempt: attempt.origin,
                step: *step,
                call: call.clone(),
                nth: *nth,
                background: *background,
                workspace: member
                    .agent
                    .has_tools
                    .then(|| workspace_of(&self.state.spec, &self.log_dir, member_index)),
            };
            let spec = TaskSpec::Run(Box::new(self.subagent_spec(&member.agent, sub_task, of, n as u64)));
            facts.push((id.clone(), Fact::TaskCreated { id, parent: Some(self.work(member_index)), spec }));
        }
        facts
    }

    /// A subagent may read the run's context paths, writes only to its own workspace, and cannot start subagents.
    fn subagent_spec(&self, caller: &Member, sub_task: &SubTask, of: SubagentOf, n: u64) -> RunSpec {
        let spec = &self.state.spec;
        let settings = spec.rules.subagents.unwrap_or_default();
        let members = if sub_task.team { spec.members.clone() } else { vec![caller.clone()] };
        let agent_mode = if members.len() > 1 { AgentMode::Multi } else { AgentMode::Single };
        let planning = spec.modes.planning || spec.rules.plan_first;
        let modes = Modes { agent_mode, refinement: false, planning };
        let time = sub_task.timeout.map_or(settings.default_timeout, |time| {
            time.max(settings.min_timeout).min(settings.max_timeout)
        });
        let rules = RunRules {
            override_window: None,
            max_restarts: 0,
            plan_first: false,
            subagents: None,
            limits: RunLimits { orchestrator: time, cost_micro_usd: None, ..spec.rules.limits },
            ..spec.rules.clone()
        };
        let mut context = sub_task.context.clone().unwrap_or_default();
        if let Some(workspace) = &of.workspace {
            let _ =
                write!(context, "\nThe workspace of the agent that started you is {workspace} (read only).");
        }
        let read_only = |path: &ContextPath| ContextPath { writable: false, ..path.clone() };
        RunSpec {
            task: sub_task.task.clone(),
            context: Some(context.trim().to_owned()).filter(|context| !context.is_empty()),
            history: Vec::new(),
            members,
            context_paths: spec.context_paths.iter().map(read_only).collect(),
            unapproved_paths: spec.unapproved_paths.clone(),
            modes,
            rules: rules.with(&modes.overrides()),
            subagent_of: Some(of),
            plan: None,
            execution: None,
            tie_break_seed: spec.tie_break_seed.wrapping_add(n),
        }
    }

    pub(super) fn stop_subagents(&self) -> Vec<Consequence> {
        let wanted = |subagent: &Subagent| {
            let member = self.state.members.get(subagent.member_index);
            let attempts =
                member.into_iter().flat_map(|member| member.attempt.iter().chain(&member.suspended));
            attempts.into_iter().any(|attempt| subagent.belongs_to(subagent.member_index, attempt))
        };
        let stop = |subagent: &Subagent| {
            let op = Op::Cancel { task: subagent.task.clone() };
            (subagent.task.clone(), Fact::accepted(op, Origin::System))
        };
        let running = self.state.subagents.iter().filter(|it| it.end.is_none() && !it.stopped);
        running.filter(|subagent| !wanted(subagent)).map(stop).collect()
    }

    pub(super) fn has_running_subagents(&self) -> bool {
        self.state.subagents.iter().any(|subagent| subagent.end.is_none())
    }

    pub(super) fn files_to_import(
        &self,
        index: usize,
        member: &MemberState,
        attempt: &MemberAttempt,
    ) -> Vec<SideTask> {
        let side_task = |subagent: &Subagent| {
            let from = subagent.end.as_ref()?.workspace.clone()?;
            let name = subagent_dir(subagent.name());
            let kind = SideTaskKind::ImportFiles { subagent: subagent.task.clone(), from, name };
            Some(SideTask { member_index: index, attempt: attempt.number, kind })
        };
        let subagents = self.state.subagents_of(index, attempt).filter(|_| member.agent.has_tools);
        subagents.filter_map(side_task).collect()
    }

    pub(super) fn apply_to_subagent(&mut self, task: &TaskId, fact: &Fact) {
        if let Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } = fact {
            let asked =
                spec.subagent_of.as_ref().and_then(|of| Some((self.member_index_of(&of.work)?, of.clone())));
            self.state.subagents.extend(asked.map(|(member_index, of)| Subagent {
                task: id.clone(),
                member_index,
                of,
                end: None,
                stopped: false,
            }));
            return;
        }
        let found = self.state.subagents.iter_mut().find(|subagent| subagent.task.covers(task));
        let Some(subagent) = found else { return };
        let has_tools =
            self.state.members.get(subagent.member_index).is_some_and(|member| member.agent.has_tools);
        match fact {
            Fact::ItemAdded { item: Item::Reply(reply), .. } => self.state.usage += reply.usage,
            Fact::AttemptEnded { usage, outcome, .. } if outcome.has_own_usage() => {
                self.state.usage += *usage;
            }
            Fact::Decided(Verdict::Finished { result, .. }) => {
                subagent.end = Some(SubagentEnd::of(result, has_tools))
            }
            _ => {}
        }
    }

    pub(super) fn stop_subagent(&mut self, task: &TaskId) {
        if let Some(subagent) = self.state.subagents.iter_mut().find(|subagent| subagent.task == *task) {
            subagent.stopped = true;
        }
    }

    pub(super) fn record_imported_files(&mut self, from: &TaskId, error: Option<&String>) {
        let ended = self.state.subagents.iter_mut().find(|subagent| subagent.task == *from);
        if let Some(end) = ended.and_then(|subagent| subagent.end.as_mut()) {
            end.workspace = None;
            end.imported = Some(error.map_or(Ok(()), |error| Err(error.clone())));
        }
    }
}

impl SubagentEnd {
    fn of(result: &RunResult, has_tools: bool) -> Self {
        Self {
            status: result.status,
            answer: result.final_answer.clone(),
            error: result.error.clone(),
            log_dir: result.log_dir.clone(),
            workspace: result.workspace_path.clone().filter(|_| has_tools),
            imported: None,
        }
    }
}

/// Whether the call is to one of the run's own tools, and the attempt was offered that tool.
pub(super) fn is_run_tool(state: &RunState, attempt: &MemberAttempt, call: &ToolCall) -> bool {
    match call.name.as_str() {
        SPAWN => state.may_spawn(attempt.purpose).is_some(),
        WAIT => state.may_spawn(attempt.purpose).is_some_and(|settings| settings.background),
        PLAN_TASK => state.carries_out_plan(attempt.purpose),
        _ => false,
    }
}
