//! The modes that the user sets on the mode bar. How one agent and quick change the rules
//! of a run is decided by `Modes::overrides`, for all front ends; planning changes what a run may do (`RunSpec::modes`).

use althing_protocol::{
    AgentId, AgentMode, InteractionKind, ModeChoice, Modes, RunOverrides, SessionId, SessionKind, TaskId,
};
use althing_view::SessionView;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanMode {
    #[default]
    Normal,
    /// Messages become plans, which the user approves.
    Plan,
    /// An approved plan is being executed, or the next run will execute it.
    Execute,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OverrideState {
    #[default]
    None,
    Available,
    Chosen(AgentId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuiModeState {
    pub plan_mode: PlanMode,
    pub agent_mode: AgentMode,
    pub selected_agent: Option<AgentId>,
    pub refinement: bool,
    pub override_state: OverrideState,
    /// Whether a chat agent replies to messages and launches runs. Otherwise each message starts a run.
    pub interactive_mode: bool,
    pub interactive_session: Option<SessionId>,
    pub current_run_id: Option<TaskId>,
    pub pending_run_approval: bool,
    /// The modes that the user chose, on the command line or on the screen. `None` for modes that the user did not
    /// choose.
    choice: ModeChoice,
}

impl Default for TuiModeState {
    fn default() -> Self {
        let modes = Modes::default();
        Self {
            plan_mode: PlanMode::Normal,
            agent_mode: modes.agent_mode,
            selected_agent: None,
            refinement: modes.refinement,
            override_state: OverrideState::None,
            interactive_mode: false,
            interactive_session: None,
            current_run_id: None,
            pending_run_approval: false,
            choice: ModeChoice::default(),
        }
    }
}

impl TuiModeState {
    pub fn new(interactive: bool, choice: &ModeChoice) -> Self {
        let mut state = Self { interactive_mode: interactive, ..Self::default() };
        state.adopt(choice);
        state
    }

    pub fn adopt(&mut self, choice: &ModeChoice) {
        self.choice = choice.clone();
        self.agent_mode = choice.agent_mode.unwrap_or_default();
        self.refinement = choice.refinement.unwrap_or(true);
        self.plan_mode = if choice.planning == Some(true) { PlanMode::Plan } else { PlanMode::Normal };
        self.selected_agent.clone_from(&choice.agent);
    }

    pub fn modes(&self) -> Modes {
        Modes {
            agent_mode: self.agent_mode,
            refinement: self.refinement,
            planning: self.plan_mode == PlanMode::Plan,
        }
    }

    pub fn overrides(&self) -> RunOverrides {
        self.modes().overrides()
    }

    /// The modes that the user chose, which are sent with each message.
    pub fn choice(&self) -> ModeChoice {
        self.choice.clone()
    }

    pub fn toggle_plan(&mut self) {
        let planning = self.plan_mode != PlanMode::Plan;
        self.plan_mode = if planning { PlanMode::Plan } else { PlanMode::Normal };
        self.choice.planning = Some(planning);
    }

    /// Toggles single-agent mode. Its agent is the selected one or, without a selection, the first of the team.
    pub fn toggle_agent_mode(&mut self, team: &[AgentId]) {
        self.agent_mode = match self.agent_mode {
            AgentMode::Multi => AgentMode::Single,
            AgentMode::Single => AgentMode::Multi,
        };
        self.choice.agent_mode = Some(self.agent_mode);
        if self.agent_mode == AgentMode::Single {
            let chosen = self.selected_agent.clone().or_else(|| team.first().cloned());
            self.choice.agent.clone_from(&chosen);
            self.selected_agent = chosen;
        } else {
            self.choice.agent = None;
        }
    }

    pub fn select_agent(&mut self, agent: &AgentId) {
        self.selected_agent = Some(agent.clone());
        if self.agent_mode == AgentMode::Single {
            self.choice.agent = Some(agent.clone());
        }
    }

    pub fn toggle_refinement(&mut self) {
        self.refinement = !self.refinement;
        self.choice.refinement = Some(self.refinement);
    }

    pub fn follow(&mut self, model: &SessionView) {
        self.interactive_mode = match model.kind {
            Some(SessionKind::Chat) if !model.team.is_empty() => model.chat_agent.is_some(),
            Some(SessionKind::Run | SessionKind::Workflow) => false,
            _ => self.interactive_mode,
        };
        if self.interactive_mode {
            self.interactive_session.clone_from(&model.session);
        }
        let live = model.live_run();
        self.current_run_id = live.map(|run| run.id.clone());
        let asks = |kind: &InteractionKind| matches!(kind, InteractionKind::RunApproval { .. });
        self.pending_run_approval = model.questions.iter().any(|question| asks(&question.interaction.kind));
        self.override_state = match (model.override_question(), live.and_then(|run| run.chosen.clone())) {
            (Some(_), _) => OverrideState::Available,
            (None, Some(agent)) => OverrideState::Chosen(agent),
            (None, None) => OverrideState::None,
        };
        let executing = model.pending_plan.is_some() || live.is_some_and(|run| run.plan.is_some());
        match (executing, self.plan_mode) {
            (true, _) => {
                // The plan is approved, so the next message is not planned again unless the user asks for it.
                self.plan_mode = PlanMode::Execute;
                self.choice.planning = None;
            }
            (false, PlanMode::Execute) => self.plan_mode = PlanMode::Normal,
            (false, PlanMode::Normal | PlanMode::Plan) => {}
        }
    }
}
