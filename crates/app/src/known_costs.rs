//! Checks, before anything starts, that a cost limit can apply to every agent. An agent whose cost is never known
//! could spend without limit: it is refused under `--max-cost`, and the user gets a notice if the config sets
//! `budget_usd`.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::team::Team;
use althing_config::is_on_this_machine;
use althing_llm::PriceTable;
use althing_protocol::{
    AGENT_KINDS, AgentId, AgentKind, BackendConfig, ExecutionMode, KnownCosts, Member, Price, ProgramSpec,
    Usage,
};
use althing_runner::ModelPrices;

/// The prices are for CLI agents that report tokens but no cost.
pub(crate) fn model_prices(team: &Team) -> ModelPrices {
    let prices = PriceTable::new(&team.config.prices);
    ModelPrices::new(move |name: &str, usage: &Usage| prices.cost(name, usage))
}

/// What is known about the costs of a team's runs: the prices of its agents, as far as they are known.
pub(crate) fn of_team(team: &Team, members: &[Member]) -> KnownCosts {
    let table = PriceTable::new(&team.config.prices);
    let free = Price { input_per_million: 0.0, output_per_million: 0.0, cached_input_per_million: None };
    let price = |member: &Member| {
        if member.offline {
            return Some(free);
        }
        let config = team.config.agents.iter().find(|agent| agent.id == member.id);
        let url = config.and_then(|agent| agent.backend.base_url.as_deref());
        let unlisted = || {
            if member.is_cli_agent() {
                return table.price(&member.backend);
            }
            url.is_some_and(is_on_this_machine).then_some(free)
        };
        table.price(&member.model).or_else(unlisted)
    };
    let prices = members.iter().filter_map(|member| Some((member.id.clone(), price(member)?))).collect();
    KnownCosts { prices, ..KnownCosts::default() }
}

/// Fails if `--max-cost` is set and the agent's cost cannot be known. If only `budget_usd` is set, a notice says that
/// the budget does not include the agent. `model` is the model that will be called; None for a CLI agent that uses its
/// own default model.
pub(crate) fn check(
    id: &AgentId,
    config: &BackendConfig,
    model: Option<&str>,
    team: &Team,
    app: &AppContext,
) -> Result<(), Failure> {
    let budget = team.interactive().and_then(|interactive| interactive.budget_usd);
    if (app.settings.max_cost.is_none() && budget.is_none()) || is_known(config, model, team) {
        return Ok(());
    }
    let what = match model {
        Some(model) => format!("the price of {model} is not known"),
        None => "the agent does not report its cost and the config does not name its model".to_owned(),
    };
    let name = model.unwrap_or(&config.kind);
    let hint = format!(
        "add its price to the config: `prices: {{{name}: {{input_per_million: …, output_per_million: …}}}}`"
    );
    if app.settings.max_cost.is_some() {
        let message = format!("agent {id}: `--max-cost` cannot limit its cost, because {what}");
        return Err(Failure::usage(message).hint(hint).hint("or leave out `--max-cost`"));
    }
    app.notify(&format!("agent {id}: `budget_usd` does not include its cost, because {what}; {hint}"));
    Ok(())
}

/// Fails if `--max-cost` is set and the cost of a workflow's task cannot be known. The user's own commands cost
/// nothing.
pub(crate) fn check_task(
    id: &str,
    program: &ProgramSpec,
    team: &Team,
    app: &AppContext,
) -> Result<(), Failure> {
    if app.settings.max_cost.is_none() || !program.command.is_empty() {
        return Ok(());
    }
    let refused = |why: &str| {
        let message = format!("task {id}: `--max-cost` cannot limit its cost, because {why}");
        Failure::usage(message).hint("leave out `--max-cost`, or the task")
    };
    let Some(kind) = AGENT_KINDS.iter().find(|kind| kind.adapter == program.adapter) else {
        return Err(refused("a program of a custom adapter does not report its cost"));
    };
    if program.mode == ExecutionMode::Interactive {
        return Err(refused("a program in a terminal does not report its cost"));
    }
    if is_known_of_program(kind, program.model.as_deref(), team) {
        return Ok(());
    }
    let name = program.model.as_deref().unwrap_or(kind.kind);
    let hint = format!(
        "add its price to the config: `prices: {{{name}: {{input_per_million: …, output_per_million: …}}}}`"
    );
    Err(refused(&format!("{} does not report its cost and the price of its model is not known", kind.title))
        .hint(hint))
}

/// Models on this machine cost nothing.
fn is_known(config: &BackendConfig, model: Option<&str>, team: &Team) -> bool {
    if let Some(kind) = AgentKind::of(&config.kind) {
        return is_known_of_program(kind, model, team);
    }
    let prices = PriceTable::new(&team.config.prices);
    let has_price = |name: &str| prices.price(name).is_some();
    config.base_url.as_deref().is_some_and(is_on_this_machine) || model.is_none_or(has_price)
}

fn is_known_of_program(kind: &AgentKind, model: Option<&str>, team: &Team) -> bool {
    let prices = PriceTable::new(&team.config.prices);
    let has_price = |name: &str| prices.price(name).is_some();
    kind.reports_cost || model.is_some_and(has_price) || has_price(kind.kind)
}
