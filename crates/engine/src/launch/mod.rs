//! Resolves a launch (a `launch_run` call, or a message or command that directly starts a run) into the exact run to
//! start. Pure. A model can correct its call from the error messages.

mod arguments;
mod overrides;
mod paths;
mod plan;
mod result_text;
mod team;
mod tool;

pub use arguments::{check_texts, read_launch};
pub use tool::{LAUNCH_RUN, launch_run_spec};

pub(crate) use arguments::read_text;
pub(crate) use plan::plan_preview;
pub use result_text::result_for_client;
pub(crate) use result_text::result_text;

use crate::summary::excerpt;
use althing_protocol::{
    AgentMode, ContextPath, KnownCosts, LaunchRun, ModeChoice, Modes, PathGrant, PlanRun, Proposal,
    RunResult, RunSpec, TeamSpec,
};
use althing_text::{hex, nearest};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The maximum size in bytes of each text (task, context, system prompts) in a launch by a model or an MCP client.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Whether a person consents to a run's permissions before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// A person approves the proposal first, or wrote it.
    Person,
    /// Nobody consents: besides what all runs of the team may use, the run may only read in the team's `readable_dirs`.
    Nobody,
}

/// A resolved launch: the run to start, and the proposal that people are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedRun {
    /// The run to start.
    pub spec: RunSpec,
    /// The proposal for approval. Its `launch` has all defaults filled in: resolving it again yields the same run.
    pub proposal: Proposal,
}

/// Resolves a launch, or returns what is wrong with it. The user's mode choices take precedence over the launch.
pub fn resolve_launch(
    team: &TeamSpec,
    launch: &LaunchRun,
    choice: &ModeChoice,
    consent: Consent,
    tie_break_seed: u64,
) -> Result<ResolvedRun, String> {
    let mut resolved = launch.clone();
    if resolved.task.trim().is_empty() {
        return Err("`task` is empty: say what the run should accomplish.".into());
    }
    let (agent_mode, mut members) = team::members(team, launch, choice)?;
    let refinement = choice.refinement.or(launch.refinement).unwrap_or(agent_mode == AgentMode::Multi);
    let planning = choice.planning.unwrap_or(launch.planning_mode);
    if launch.execute_after_planning && !launch.planning_mode && !planning {
        return Err("`execute_after_planning` needs `planning_mode: true`.".into());
    }
    let modes = Modes { agent_mode, refinement, planning };
    resolved.agent_mode = Some(agent_mode);
    resolved.agents = Some(members.iter().map(|member| member.id.clone()).collect());
    resolved.refinement = Some(refinement);
    resolved.planning_mode = planning;
    resolved.execute_after_planning &= planning;
    if choice.refinement.is_some() || modes.overrides().is_one_call() {
        overrides::drop_overridden(modes, &mut resolved.coordination_overrides)?;
    }
    let mut rules = team.rules.clone().with(&modes.overrides());
    overrides::apply(&mut rules, &team.rules, &resolved.coordination_overrides)?;
    // With `plan_first`, the agents plan and the presenter acts. In a planning run nobody acts, not even the presenter.
    rules.plan_first &= !planning;
    team::add_prompts(&mut members, &resolved.agent_system_prompts)?;
    let (context_paths, unapproved_paths) = paths::resolve(team, &resolved.context_paths, consent)?;
    let acts = !planning || resolved.execute_after_planning;
    let may_write = context_paths.iter().filter(|path| path.writable && acts);
    let may_write: Vec<String> = may_write.map(|path| path.path.clone()).collect();
    let may_read = context_paths.iter().map(|path| &path.path).filter(|path| !may_write.contains(path));
    let may_read = may_read.cloned().collect();
    if !context_paths.is_empty() {
        for member in &mut members {
            member.has_tools = true;
        }
    }
    let execution = if resolved.execute_after_planning {
        let launch = LaunchRun { planning_mode: false, execute_after_planning: false, ..resolved.clone() };
        let choice = ModeChoice::default();
        Some(Box::new(resolve_launch(team, &launch, &choice, consent, tie_break_seed.wrapping_add(1))?.spec))
    } else {
        None
    };
    let spec = RunSpec {
        task: resolved.task.clone(),
        context: resolved.context.clone(),
        history: Vec::new(),
        members: members.clone(),
        // A planning run writes nothing.
        context_paths: context_paths
            .into_iter()
            .map(|path| ContextPath { writable: path.writable && !planning, ..path })
            .collect(),
        unapproved_paths,
        modes,
        rules,
        subagent_of: None,
        plan: None,
        execution,
        tie_break_seed,
    };
    let costs = team.costs.as_ref().map(|costs| {
        Box::new(KnownCosts {
            max_answers_per_agent: spec.rules.max_new_answers_per_agent,
            limit_micro_usd: spec.rules.limits.cost_micro_usd,
            ..KnownCosts::clone(costs)
        })
    });
    let mut proposal = Proposal {
        launch: resolved,
        members,
        modes,
        chosen: chosen(choice),
        may_read,
        may_write,
        costs,
        not_signed_in: team.not_signed_in.clone(),
        digest: String::new(),
    };
    proposal.digest = digest_of(&proposal)?;
    Ok(ResolvedRun { spec, proposal })
}

pub(crate) fn with_grants(team: &TeamSpec, grants: &[PathGrant]) -> Result<Vec<ContextPath>, String> {
    paths::resolve(team, grants, Consent::Person).map(|(paths, _)| paths)
}

/// Adds the plan to the spec of the run that executes it, which was resolved before the plan existed.
pub(crate) fn execution_run(mut execution: RunSpec, planned: &RunResult) -> RunSpec {
    let mut context = execution.context.take().map(|context| context + "\n\n").unwrap_or_default();
    let steps = planned.final_answer.as_deref().unwrap_or_default();
    let plan = planned.plan.clone().zip(plan::tasks(steps));
    execution.plan = plan.map(|(plan, tasks)| PlanRun { plan, tasks, progress: Vec::new(), additions: None });
    if let Some(plan) = &execution.plan {
        let _ =
            write!(context, "The plan was made by run {}; it is kept in {}.", planned.run_id, plan.plan.path);
    } else {
        let whole = format!("the whole plan is in {}/final_answer.md", planned.log_dir);
        let steps = excerpt(steps, MAX_TEXT_BYTES / 2, &whole);
        let _ = write!(context, "Carry out this plan, made by run {}:\n{steps}", planned.run_id);
    }
    execution.context = Some(context);
    execution
}

fn chosen(choice: &ModeChoice) -> Vec<String> {
    let toggled = [
        ("agent_mode", choice.agent_mode.is_some()),
        ("refinement", choice.refinement.is_some()),
        ("planning", choice.planning.is_some()),
    ];
    toggled.into_iter().filter(|(_, is)| *is).map(|(name, _)| name.to_owned()).collect()
}

fn check_length(name: &str, text: &str) -> Result<(), String> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(format!(
        "`{name}` is too long ({} bytes; at most {MAX_TEXT_BYTES}). Sum it up, and name files by their paths in \
         `context_paths` instead of quoting them.",
        text.len()
    ))
}

/// SHA-256 of the proposal, computed while its `digest` is empty.
fn digest_of(proposal: &Proposal) -> Result<String, String> {
    let shown = serde_json::to_vec(proposal)
        .map_err(|error| format!("the proposal cannot be serialized: {error}"))?;
    Ok(hex(&Sha256::digest(&shown)))
}

fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known).map(|word| format!(" Did you mean `{word}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
