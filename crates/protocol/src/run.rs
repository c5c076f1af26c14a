//! A run: its members, its rules and its modes.

use crate::{
    AgentId, AgentKind, ChatState, DecisionRules, Millis, PlanRun, Revision, RunLimits, SubagentsConfig,
    TaskId,
};
use serde::{Deserialize, Serialize};

/// Whether one agent or several work on a task.
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
    /// Whether one agent or several work.
    pub agent_mode: AgentMode,
    /// Whether agents may improve their answers after seeing the others'; false (`--quick`): each agent answers once.
    pub refinement: bool,
    /// Whether agents only plan and change nothing.
    pub planning: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Self { agent_mode: AgentMode::Multi, refinement: true, planning: false }
    }
}

impl Modes {
    /// How these modes change a run's rules; defined nowhere else.
    pub fn overrides(self) -> RunOverrides {
        match (self.agent_mode, self.refinement) {
            (_, true) => RunOverrides::default(),
            (AgentMode::Single, false) => RunOverrides {
                max_new_answers_per_agent: Some(1),
                skip_final_presentation: Some(true),
                skip_voting: Some(true),
                final_answer_strategy: Some(FinalAnswerStrategy::WinnerReuse),
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

/// Changes to a run's rules; `None` keeps a rule as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOverrides {
    /// See [`RunRules::max_new_answers_per_agent`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_new_answers_per_agent: Option<u32>,
    /// See [`RunRules::skip_final_presentation`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_final_presentation: Option<bool>,
    /// See [`RunRules::skip_voting`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_voting: Option<bool>,
    /// See [`RunRules::disable_injection`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_injection: Option<bool>,
    /// See [`RunRules::defer_voting_until_all_answered`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer_voting_until_all_answered: Option<bool>,
    /// See [`RunRules::final_answer_strategy`]. A strategy in the config takes precedence, except in a quick run of a
    /// single agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_answer_strategy: Option<FinalAnswerStrategy>,
}

impl RunOverrides {
    /// Whether these are the changes of a quick run of a single agent, which ends with its answer.
    pub fn is_one_call(&self) -> bool {
        self.skip_voting == Some(true)
    }
}

/// How the final answer is produced once the agents are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalAnswerStrategy {
    /// The answer of the winner, or of the agent that a person chose instead, is used unchanged. But if only a
    /// presenter may write or act (see [`RunSpec::may_write`]), that agent presents as with `WinnerPresent`, except in
    /// a quick run of a single agent.
    WinnerReuse,
    /// The presenter rewrites its own answer for the user.
    WinnerPresent,
    /// The presenter combines all answers into one.
    Synthesize,
}

/// How good an answer must be before agents vote for it instead of improving it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VotingSensitivity {
    /// Agents vote as soon as an answer is good enough.
    #[default]
    Lenient,
    /// Agents improve an answer if something important is missing.
    Balanced,
    /// Agents improve an answer unless it is excellent.
    Strict,
    /// Agents improve an answer if the gain is worth another round; the same as `RoiBalanced`.
    Roi,
    /// Agents vote only if another round would gain almost nothing.
    RoiConservative,
    /// Agents improve an answer if the gain is worth another round.
    RoiBalanced,
    /// Agents vote unless another round would gain much.
    RoiAggressive,
    /// Agents take the best answer as a draft and go one step further.
    Sequential,
    /// Agents try to refute the best answer before they vote for it.
    Adversarial,
    /// Agents look for contradictions within and between the answers.
    Consistency,
    /// Agents ask whether all answers share one approach that another approach would beat.
    Diversity,
    /// Agents ask what they would criticize in the best answer later.
    Reflective,
    /// Agents check the best answer against a list of what the task demands.
    Checklist,
}

/// How different a new answer must be from the answers that its author knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerNovelty {
    /// Any answer that is not identical to a known answer.
    #[default]
    Lenient,
    /// At most 70 % of the distinct words of the new and a known answer together may occur in both.
    Balanced,
    /// At most 50 % of the distinct words of the new and a known answer together may occur in both.
    Strict,
}

/// The rules of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRules {
    /// The number of answers after which an agent can only vote.
    pub max_new_answers_per_agent: Option<u32>,
    /// The total number of answers after which all agents can only vote.
    pub max_new_answers_global: Option<u32>,
    /// How good an answer must be before agents vote for it.
    pub voting_sensitivity: VotingSensitivity,
    /// Agents do not vote; the newest answer wins once every agent has answered or dropped out.
    pub skip_voting: bool,
    /// Agents see each other's answers only for the vote; with several agents, none improves its answer.
    pub disable_injection: bool,
    /// No agent votes before every agent has answered or dropped out.
    pub defer_voting_until_all_answered: bool,
    /// How the final answer is produced, if the config or a mode sets it.
    pub final_answer_strategy: Option<FinalAnswerStrategy>,
    /// MassGen's older key: true means `winner_reuse` if `final_answer_strategy` is not set.
    pub skip_final_presentation: bool,
    /// How long an agent that has answered waits for the others' first answers, or for agents that are still judging.
    pub first_answer_wait: Millis,
    /// How long the run waits for an agent that sends nothing while all others are done. None: without a limit, as in
    /// all logs of 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub straggler_wait: Option<Millis>,
    /// How long a person may override the winner; None: nobody can.
    pub override_window: Option<Millis>,
    /// How different a new answer must be from the answers that its author knows.
    #[serde(default)]
    pub answer_novelty: AnswerNovelty,
    /// An agent that is this many answers ahead of the agent with the fewest may not answer again until that agent
    /// catches up or drops out; None: unlimited.
    #[serde(default)]
    pub fairness_lead_cap: Option<u32>,
    /// How often the run may start over after its final answer was rejected.
    #[serde(default)]
    pub max_restarts: u32,
    /// Agents only plan until the presentation; then the presenter acts. (The config key is `enable_planning_mode`.)
    #[serde(default)]
    pub plan_first: bool,
    /// The settings of subagents; None: agents cannot start any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<SubagentsConfig>,
    /// How the run decides; in logs of 0.1, as 0.1 did.
    #[serde(default = "DecisionRules::of_0_1", skip_serializing_if = "DecisionRules::are_of_0_1")]
    pub decision: DecisionRules,
    /// The limits on time, cost, answers, tool calls and model calls.
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
            straggler_wait: Some(Millis::from_secs(60)),
            override_window: Some(Millis::from_secs(60)),
            answer_novelty: AnswerNovelty::default(),
            fairness_lead_cap: Some(2),
            max_restarts: 0,
            plan_first: false,
            subagents: None,
            decision: DecisionRules::default(),
            limits: RunLimits::default(),
        }
    }
}

impl RunRules {
    /// Applies changes to the rules. A final-answer strategy that is already set is kept, except in a quick run of a
    /// single agent, which is neither presented nor evaluated.
    pub fn with(mut self, changes: &RunOverrides) -> Self {
        if changes.is_one_call() {
            self.final_answer_strategy = None;
            self.max_restarts = 0;
        }
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

    /// The strategy that is set, or else the one that `skip_final_presentation` means.
    pub fn strategy(&self) -> FinalAnswerStrategy {
        let unset = if self.skip_final_presentation {
            FinalAnswerStrategy::WinnerReuse
        } else {
            FinalAnswerStrategy::WinnerPresent
        };
        self.final_answer_strategy.unwrap_or(unset)
    }
}

/// An agent as a member of a run. Members are recorded in the log, so they contain no secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The agent's name in the config.
    pub id: AgentId,
    /// The config's `backend.type`.
    pub backend: String,
    /// The model's name.
    pub model: String,
    /// Whether the backend is the offline model.
    #[serde(default)]
    pub offline: bool,
    /// The user's system message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// Whether the agent has a workspace, and tools other than those of the run itself.
    #[serde(default)]
    #[serde(rename = "hands")]
    pub has_tools: bool,
    /// The agent's own voting sensitivity, which overrides the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voting_sensitivity: Option<VotingSensitivity>,
}

impl Member {
    /// Whether the agent is a CLI agent rather than a model behind an API.
    pub fn is_cli_agent(&self) -> bool {
        AgentKind::of(&self.backend).is_some()
    }
}

/// One exchange of the conversation that a run gets as history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// The user's message.
    pub user: String,
    /// The reply.
    pub assistant: String,
}

/// A file or directory of the user that a run works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPath {
    /// The absolute path; in [`crate::Config`], the path as written.
    pub path: String,
    /// Whether the agent that has [`crate::ContextAccess::Writable`] may write to the path.
    pub writable: bool,
    /// Files and directories inside this path that no agent may write to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
}

/// The complete, resolved spec of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// What the run should accomplish.
    pub task: String,
    /// Background for the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The conversation before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Exchange>,
    /// The agents that take part, in config order. An agent's anonymous number is its position here, counted from 1.
    pub members: Vec<Member>,
    /// The user's files and directories that the run works on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_paths: Vec<ContextPath>,
    /// The read-only context paths that `launch_run` added without a person's approval. Before the run starts, they are
    /// checked for links and for files that often contain secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unapproved_paths: Vec<String>,
    /// The modes that the run was started in.
    pub modes: Modes,
    /// The effective rules, with modes applied.
    pub rules: RunRules,
    /// The agent that started this run as a subagent; None if the run is not a subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_of: Option<SubagentOf>,
    /// The plan that the run executes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanRun>,
    /// For a planning run: the run that executes its plan, started if the planning run is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Box<RunSpec>>,
    /// The seed for breaking ties: their outcome differs between runs and is the same on replay.
    #[serde(rename = "lot")]
    pub tie_break_seed: u64,
}

/// The origin of a subagent run: which agent started it, with which `spawn_subagents` call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentOf {
    /// The work of the agent that started the subagent.
    pub work: TaskId,
    /// The attempt that made the call; after interruptions, the attempt in which its conversation began.
    pub attempt: u32,
    /// The number of turns in that attempt before the call.
    pub step: usize,
    /// The model's id for the call.
    pub call: String,
    /// The number of the task within the call, counted from 1.
    pub nth: u32,
    /// Whether the agent that started the subagent continues its work while the subagent works.
    #[serde(default)]
    pub background: bool,
    /// The workspace of the agent that started the subagent, readable by the subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

impl RunSpec {
    /// Whether the presenter may write to context paths or, with `plan_first`, act. False for a planning run.
    pub fn may_write(&self) -> bool {
        let writes = self.rules.plan_first || self.context_paths.iter().any(|path| path.writable);
        writes && !self.modes.planning
    }

    /// Whether conclusions are compared: several agents answer and vote in text alone, without tools or plans, and a
    /// decision rule needs their conclusions.
    pub fn compares_conclusions(&self) -> bool {
        let text_only = !self.members.iter().any(|member| member.has_tools);
        let plans = self.modes.planning || self.plan.is_some();
        let decision = &self.rules.decision;
        self.members.len() > 1
            && text_only
            && !plans
            && !self.may_write()
            && !self.rules.skip_voting
            && (decision.unanimity || decision.merge_conclusions)
    }

    /// Whether the run has a single agent and no vote. Such an agent may write while it works, because it works alone.
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
    /// Judge the known answers: vote or, if `may_answer` is true, give a better answer.
    Judge {
        /// Whether a new answer is allowed.
        may_answer: bool,
        /// The revision of the answers that the agent is shown.
        knows: Revision,
    },
    /// Run a task of a workflow.
    Carry,
    /// Reply to the user.
    Converse,
    /// Summarize the older part of the conversation.
    Compact,
    /// Write the final answer.
    Present {
        /// How the answer is produced.
        strategy: FinalAnswerStrategy,
    },
    /// Evaluate the final answer: accept it, or request a restart.
    Evaluate,
}

impl Purpose {
    /// Whether the attempt is about the final answer. An agent that fails in it does not drop out.
    pub fn is_after_the_vote(self) -> bool {
        matches!(self, Self::Present { .. } | Self::Evaluate)
    }
}

/// The phase of a run, a workflow or a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Agents write their first answers.
    Answering,
    /// Agents judge and improve the answers.
    Voting,
    /// A person may override the winner.
    OverrideWindow,
    /// The presenter writes the final answer.
    Presenting,
    /// The run has ended.
    Done,
    /// The current stage of a workflow, counted from 0.
    Stage(u32),
    /// The state of a conversation.
    Chat(ChatState),
}

#[cfg(test)]
mod tests;
