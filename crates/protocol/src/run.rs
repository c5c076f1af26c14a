//! A coordination run: who takes part, under which rules, in which modes.

use crate::{AgentId, AgentKind, ChatState, Millis, PlanRun, Revision, SubagentOf, SubagentsConfig};
use serde::{Deserialize, Serialize};

/// One agent or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMode {
    /// Several agents answer and vote.
    #[default]
    Multi,
    /// One agent answers.
    Single,
}

/// The modes of a run, as the mode bar, the command line and `launch_run` name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modes {
    /// One agent or several.
    pub agent_mode: AgentMode,
    /// Whether agents refine and vote until they agree; off is "quick".
    pub refinement: bool,
    /// Whether agents only plan.
    pub planning: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Self { agent_mode: AgentMode::Multi, refinement: true, planning: false }
    }
}

impl Modes {
    /// What these modes change about a run's rules. This is the only place that knows. It is here
    /// and not in the engine because the screen's mode state needs it too, and both use only this crate.
    pub fn overrides(self) -> RunOverrides {
        match (self.agent_mode, self.refinement) {
            (_, true) => RunOverrides::default(),
            (AgentMode::Single, false) => RunOverrides {
                max_new_answers_per_agent: Some(1),
                skip_final_presentation: Some(true),
                skip_voting: Some(true),
                ..RunOverrides::default()
            },
            (AgentMode::Multi, false) => RunOverrides {
                max_new_answers_per_agent: Some(1),
                skip_final_presentation: Some(true),
                disable_injection: Some(true),
                defer_voting_until_all_answered: Some(true),
                final_answer_strategy: Some(FinalAnswerStrategy::Synthesize),
                ..RunOverrides::default()
            },
        }
    }
}

/// Changes to a run's rules; `None` leaves a rule as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOverrides {
    /// See [`RunRules`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_new_answers_per_agent: Option<u32>,
    /// See [`RunRules`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_final_presentation: Option<bool>,
    /// See [`RunRules`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_voting: Option<bool>,
    /// See [`RunRules`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_injection: Option<bool>,
    /// See [`RunRules`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer_voting_until_all_answered: Option<bool>,
    /// A default: a strategy that the config names outright stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_answer_strategy: Option<FinalAnswerStrategy>,
}

/// How the final answer is made once the agents are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalAnswerStrategy {
    /// The winner's answer as it stands; no further call.
    WinnerReuse,
    /// The winner presents its answer anew.
    WinnerPresent,
    /// The presenter writes one answer from everyone's.
    Synthesize,
}

/// How demanding voters are asked to be before they vote rather than improve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VotingSensitivity {
    /// Vote as soon as an answer is good enough.
    #[default]
    Lenient,
    /// Improve when something that matters is missing.
    Balanced,
    /// Improve unless an answer is excellent.
    Strict,
}

/// How different a new answer must be from those its author knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerNovelty {
    /// Not the same word for word.
    #[default]
    Lenient,
    /// Not mostly the same words.
    Balanced,
    /// With half of its words of its own.
    Strict,
}

/// The limits of a run. They count active time: neither downtime nor waiting for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// The whole run.
    pub orchestrator: Millis,
    /// An agent's first attempt; then it is asked to finish.
    pub initial_round: Option<Millis>,
    /// Each later attempt.
    pub subsequent_round: Option<Millis>,
    /// How much longer an attempt has after it was asked to finish.
    pub round_grace: Millis,
    /// The most the run may cost, in millionths of a US dollar.
    #[serde(default)]
    pub cost_micro_usd: Option<u64>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            orchestrator: Millis::from_secs(1800),
            initial_round: None,
            subsequent_round: None,
            round_grace: Millis::from_secs(120),
            cost_micro_usd: None,
        }
    }
}

/// The rules of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRules {
    /// An agent that has given so many answers can only vote.
    pub max_new_answers_per_agent: Option<u32>,
    /// Once the run holds so many answers, everyone can only vote.
    pub max_new_answers_global: Option<u32>,
    /// How demanding voters are asked to be.
    pub voting_sensitivity: VotingSensitivity,
    /// No vote tool, no vote text; the run goes on to its end once everyone has answered.
    pub skip_voting: bool,
    /// Agents neither learn of others' answers while they work nor disturb them with their own.
    pub disable_injection: bool,
    /// Nobody votes before everyone has answered or is out.
    pub defer_voting_until_all_answered: bool,
    /// How the final answer is made, if the config or a mode says so.
    pub final_answer_strategy: Option<FinalAnswerStrategy>,
    /// MassGen's older way to ask for `winner_reuse`.
    pub skip_final_presentation: bool,
    /// How long an agent that has answered waits for others' first answers before it may judge without them.
    pub first_answer_wait: Millis,
    /// How long a person may override the winner; None where nobody is there to do so.
    pub override_window: Option<Millis>,
    /// How different a new answer must be.
    #[serde(default)]
    pub answer_novelty: AnswerNovelty,
    /// How many answers an agent may be ahead of the slowest live one before it has to wait; None: any number.
    #[serde(default)]
    pub fairness_lead_cap: Option<u32>,
    /// How often the run may start over after its final answer was found wanting.
    #[serde(default)]
    pub max_restarts: u32,
    /// Agents only plan until the presentation: whoever presents then acts.
    #[serde(default)]
    pub plan_first: bool,
    /// Agents may start agents of their own; None: they may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentsConfig>,
    /// The limits.
    pub limits: RunLimits,
}

impl Default for RunRules {
    fn default() -> Self {
        Self {
            max_new_answers_per_agent: None,
            max_new_answers_global: None,
            voting_sensitivity: VotingSensitivity::default(),
            skip_voting: false,
            disable_injection: false,
            defer_voting_until_all_answered: false,
            final_answer_strategy: None,
            skip_final_presentation: false,
            first_answer_wait: Millis::from_secs(30),
            override_window: Some(Millis::from_secs(60)),
            answer_novelty: AnswerNovelty::default(),
            fairness_lead_cap: Some(2),
            max_restarts: 0,
            plan_first: false,
            subagents: None,
            limits: RunLimits::default(),
        }
    }
}

impl RunRules {
    /// These rules with changes applied.
    pub fn with(mut self, changes: &RunOverrides) -> Self {
        self.max_new_answers_per_agent = changes.max_new_answers_per_agent.or(self.max_new_answers_per_agent);
        self.skip_final_presentation =
            changes.skip_final_presentation.unwrap_or(self.skip_final_presentation);
        self.skip_voting = changes.skip_voting.unwrap_or(self.skip_voting);
        self.disable_injection = changes.disable_injection.unwrap_or(self.disable_injection);
        self.defer_voting_until_all_answered =
            changes.defer_voting_until_all_answered.unwrap_or(self.defer_voting_until_all_answered);
        self.final_answer_strategy = self.final_answer_strategy.or(changes.final_answer_strategy);
        self
    }

    /// The strategy in force.
    pub fn strategy(&self) -> FinalAnswerStrategy {
        let unset = if self.skip_final_presentation {
            FinalAnswerStrategy::WinnerReuse
        } else {
            FinalAnswerStrategy::WinnerPresent
        };
        self.final_answer_strategy.unwrap_or(unset)
    }
}

/// An agent as a member of a run: what the log may know of it (no secrets).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The user's name for it.
    pub id: AgentId,
    /// The config's `backend.type`.
    pub backend: String,
    /// The model's name.
    pub model: String,
    /// Whether it is the offline model.
    #[serde(default)]
    pub offline: bool,
    /// The user's own words about who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// Whether it has a workspace and tools besides those of the run.
    #[serde(default)]
    #[serde(rename = "hands")]
    pub has_tools: bool,
    /// Its own sensitivity, over the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voting_sensitivity: Option<VotingSensitivity>,
}

impl Member {
    /// Whether it is a program with tools of its own, rather than a model.
    pub fn is_cli_agent(&self) -> bool {
        AgentKind::of(&self.backend).is_some()
    }
}

/// One turn of the conversation that a run is given as history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// What the user said.
    pub user: String,
    /// What was answered.
    pub assistant: String,
}

/// A path that a run is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPath {
    /// Where: absolute.
    pub path: String,
    /// Whether the presenter may write there.
    pub writable: bool,
    /// Parts of it that nobody may write to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
}

/// Everything a run needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// What to accomplish.
    pub task: String,
    /// Background that goes with the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The conversation before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Exchange>,
    /// Who takes part, in config order; an agent's anonymous number is its place here, counted from 1.
    pub members: Vec<Member>,
    /// The paths that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_paths: Vec<ContextPath>,
    /// The modes it was started in.
    pub modes: Modes,
    /// The rules in force, modes applied.
    pub rules: RunRules,
    /// Whose errand it is; None: a person's or a program's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_of: Option<SubagentOf>,
    /// The plan that it carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanRun>,
    /// For a planning run: the run that carries out its plan, which starts once the plan is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Box<RunSpec>>,
    /// Decides ties that votes leave open, so that a draw falls differently from run to run and the same on replay.
    #[serde(rename = "lot")]
    pub tie_break_seed: u64,
}

impl RunSpec {
    /// Whether there is something that only the presenter may do: write outside the workspaces, or act at all.
    pub fn may_write(&self) -> bool {
        let writes = self.rules.plan_first || self.context_paths.iter().any(|path| path.writable);
        writes && !self.modes.planning
    }

    /// Whether one agent answers once and that is all: it may write while it works, since nobody works beside it.
    pub fn is_single_and_quick(&self) -> bool {
        self.members.len() == 1 && self.rules.skip_voting
    }
}

/// Why an attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "purpose", rename_all = "snake_case")]
pub enum Purpose {
    /// Give a first answer.
    Answer,
    /// Judge the answers known: vote, or improve where that is allowed.
    Judge {
        /// Whether a new answer is allowed too.
        may_answer: bool,
        /// The answers it is shown.
        knows: Revision,
    },
    /// Carry out a task of a workflow.
    Carry,
    /// Answer the user.
    Converse,
    /// Sum up the older part of the conversation.
    Compact,
    /// Write the final answer.
    Present {
        /// How.
        strategy: FinalAnswerStrategy,
    },
    /// Judge the final answer: let it stand, or ask for the run to start over.
    Evaluate,
}

impl Purpose {
    /// Whether it is about the final answer: who fails at it has still taken part.
    pub fn is_after_the_vote(self) -> bool {
        matches!(self, Self::Present { .. } | Self::Evaluate)
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// First answers are being written.
    Answering,
    /// Answers are judged and improved.
    Voting,
    /// A person may override the winner.
    OverrideWindow,
    /// The final answer is being written.
    Presenting,
    /// It is over.
    Done,
    /// A workflow's stage, counted from 0.
    Stage(u32),
    /// A conversation's state.
    Chat(ChatState),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(agent_mode: AgentMode, refinement: bool) -> Modes {
        Modes { agent_mode, refinement, planning: false }
    }

    #[test]
    fn refinement_leaves_the_rules_as_configured() {
        for mode in [AgentMode::Multi, AgentMode::Single] {
            assert_eq!(modes(mode, true).overrides(), RunOverrides::default());
        }
    }

    #[test]
    fn a_quick_single_run_neither_votes_nor_presents() {
        let rules = RunRules::default().with(&modes(AgentMode::Single, false).overrides());
        assert!(rules.skip_voting && !rules.disable_injection);
        assert_eq!(rules.max_new_answers_per_agent, Some(1));
        assert_eq!(rules.strategy(), FinalAnswerStrategy::WinnerReuse);
    }

    #[test]
    fn a_quick_run_of_several_synthesises_unless_the_config_names_a_strategy() {
        let quick = modes(AgentMode::Multi, false).overrides();
        assert_eq!(RunRules::default().with(&quick).strategy(), FinalAnswerStrategy::Synthesize);
        let asked =
            RunRules { final_answer_strategy: Some(FinalAnswerStrategy::WinnerReuse), ..RunRules::default() };
        assert_eq!(asked.with(&quick).strategy(), FinalAnswerStrategy::WinnerReuse);
    }
}
