//! Parses the arguments of a `launch_run` call by a model or an MCP client; an error in a parameter names it.

use super::{check_length, did_you_mean};
use althing_protocol::LaunchRun;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Each parameter with a description of its values.
pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("task", "a text"),
    ("context", "a text"),
    ("agent_mode", "\"single\" or \"multi\""),
    ("agents", "a list of agent ids"),
    ("refinement", "true or false"),
    ("planning_mode", "true or false"),
    ("execute_after_planning", "true or false"),
    (
        "context_paths",
        "a list of objects with `path` and `permission` (\"read\" or \"write\"), such as \
         [{\"path\": \"/src\", \"permission\": \"read\"}]",
    ),
    ("agent_system_prompts", "an object with a text for each agent id"),
    ("coordination_overrides", "an object with config keys"),
];

/// Parses the arguments, or returns what is wrong with them. A null parameter counts as omitted.
pub fn read_launch(arguments: &Map<String, Value>) -> Result<LaunchRun, String> {
    let names = || PARAMETERS.iter().map(|(name, _)| *name);
    if let Some(unknown) = arguments.keys().find(|key| names().all(|name| name != key.as_str())) {
        let known: Vec<&str> = names().collect();
        let hint = did_you_mean(unknown, names());
        return Err(format!(
            "there is no parameter `{unknown}`.{hint} The parameters are {}.",
            known.join(", ")
        ));
    }
    if arguments.get("task").is_none_or(Value::is_null) {
        return Err("`task` is missing: say what the run should accomplish.".into());
    }
    let launch = LaunchRun {
        task: read(arguments, "task")?.unwrap_or_default(),
        context: read(arguments, "context")?,
        agent_mode: read(arguments, "agent_mode")?,
        agents: read(arguments, "agents")?,
        refinement: read(arguments, "refinement")?,
        planning_mode: read(arguments, "planning_mode")?.unwrap_or_default(),
        execute_after_planning: read(arguments, "execute_after_planning")?.unwrap_or_default(),
        context_paths: read(arguments, "context_paths")?.unwrap_or_default(),
        agent_system_prompts: read(arguments, "agent_system_prompts")?.unwrap_or_default(),
        coordination_overrides: read(arguments, "coordination_overrides")?.unwrap_or_default(),
    };
    check_texts(&launch)?;
    Ok(launch)
}

/// Fails if the task or the context is too long.
pub fn check_texts(launch: &LaunchRun) -> Result<(), String> {
    check_length("task", &launch.task)?;
    check_length("context", launch.context.as_deref().unwrap_or_default())
}

pub(crate) fn read_text(arguments: &str) -> Result<LaunchRun, String> {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(arguments)) => read_launch(&arguments),
        Ok(_) => Err("the arguments of `launch_run` must be a JSON object.".into()),
        Err(problem) => Err(format!("the arguments of `launch_run` are not valid JSON ({problem}).")),
    }
}

fn read<T: DeserializeOwned>(arguments: &Map<String, Value>, name: &str) -> Result<Option<T>, String> {
    let Some(value) = arguments.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    serde_json::from_value(value.clone()).map(Some).map_err(|problem| {
        let wanted = PARAMETERS.iter().find(|(known, _)| *known == name).map_or("", |(_, wanted)| wanted);
        format!("`{name}` must be {wanted} ({problem}).")
    })
}
