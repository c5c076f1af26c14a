//! Decides what the offline model does with a request, from the offered tools and the prompt. A pure function of the
//! request.

use super::compose::{self, Temperament};
use super::prompt_input::OfflinePromptInput;
use super::task::{self, Task};
use althing_protocol::{Message, ModelRequest, ToolSpec};
use serde_json::{Value, json};

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Say(String),
    Call { remark: String, tool: String, arguments: Value },
}

const PLANNING: &str = "This is planning only.";

const PLAN_TASK: &str = "update_plan_task";

/// Where the vote tool lists the agents that can be ranked, and those that can be voted for.
const RANKING: &str = "/properties/ranking/items/enum";
const AGENT_ID: &str = "/properties/agent_id/enum";

pub(super) fn decide(model: &str, request: &ModelRequest) -> Action {
    let prompt_input = OfflinePromptInput::read(request);
    let tool = |name: &str| request.tools.iter().find(|tool| tool.name == name);
    let temperament = Temperament::of(model, prompt_input.errors);
    if let Some(launch) = tool("launch_run") {
        return converse(&prompt_input, launch);
    }
    if let Some(vote) = tool("vote") {
        return judge(&prompt_input, temperament, tool("new_answer"), vote);
    }
    if request.tools.is_empty() && !prompt_input.conversation.is_empty() {
        return Action::Say(compose::summary(&prompt_input.conversation));
    }
    let task = Task::read(prompt_input.task);
    if let (Some(read), Some(file)) = (tool("read_file"), task.file)
        && prompt_input.results.is_empty()
        && prompt_input.errors == 0
    {
        let arguments = json!({ first_parameter(read, "path"): file });
        return Action::Call { remark: format!("Reading {file} first."), tool: read.name.clone(), arguments };
    }
    if let Some(update) = tool(PLAN_TASK)
        && let Some(id) = unfinished(update, request)
        && prompt_input.errors == 0
    {
        let note = "simulated: the offline model is not an AI";
        let arguments = json!({"id": id, "status": "completed", "note": note});
        return Action::Call { remark: format!("On to {id}."), tool: update.name.clone(), arguments };
    }
    let file = task.file.and_then(|_| prompt_input.results.first().copied());
    let planning = request.system.contains(PLANNING);
    let answer = || {
        let plan = if planning { compose::plan(&task) } else { String::new() };
        compose::answer(&task, temperament, file) + &plan
    };
    if let Some(new_answer) = tool("new_answer") {
        let content = answer();
        return new_answer_call(new_answer, &content, temperament, "Here is my answer.");
    }
    Action::Say(compose::presentation(&prompt_input).unwrap_or_else(answer))
}

fn converse(prompt_input: &OfflinePromptInput<'_>, launch: &ToolSpec) -> Action {
    if let Some(result) = prompt_input.results.last() {
        return Action::Say(compose::chat(prompt_input.task, Some(result)));
    }
    if task::is_work(prompt_input.task) && prompt_input.errors == 0 {
        let arguments = json!({ first_parameter(launch, "task"): prompt_input.task });
        return Action::Call {
            remark: "This is work for the agents; I propose a run.".to_owned(),
            tool: launch.name.clone(),
            arguments,
        };
    }
    Action::Say(compose::chat(prompt_input.task, None))
}

/// Improves the agent's first answer once if that is allowed and the temperament refines; else votes.
fn judge(
    prompt_input: &OfflinePromptInput<'_>,
    temperament: Temperament,
    new_answer: Option<&ToolSpec>,
    vote: &ToolSpec,
) -> Action {
    let own = compose::own(prompt_input, temperament);
    if let (Some(own), Some(new_answer)) = (&own, new_answer)
        && own.version == 1
        && prompt_input.errors == 0
        && temperament.refines()
    {
        let content = compose::refined(own, prompt_input);
        let remark = "My answer can be improved; here is a new version.";
        return new_answer_call(new_answer, &content, temperament, remark);
    }
    let ranked = allowed(vote, RANKING);
    let candidates = if ranked.is_empty() { allowed(vote, AGENT_ID) } else { ranked.clone() };
    let mut ranking: Vec<String> =
        compose::ranking(prompt_input).iter().map(|shown| format!("agent{}", shown.agent)).collect();
    ranking.retain(|name| candidates.is_empty() || candidates.contains(&name.as_str()));
    if ranking.is_empty() {
        ranking.push(candidates.first().map_or_else(|| "agent1".to_owned(), |first| (*first).to_owned()));
    }
    let reason = match temperament {
        Temperament::Planner => "It covers the most of what was asked.",
        Temperament::Skeptic => "It leaves the fewest questions open.",
        Temperament::Builder => "It can be started at once.",
    };
    Action::Call {
        remark: format!("I have read {}.", althing_text::count(prompt_input.answers.len() as u64, "answer")),
        tool: vote.name.clone(),
        arguments: if ranked.is_empty() {
            json!({"agent_id": ranking.first(), "reason": reason})
        } else {
            json!({"ranking": ranking, "reason": reason})
        },
    }
}

fn new_answer_call(tool: &ToolSpec, content: &str, temperament: Temperament, remark: &str) -> Action {
    let mut arguments = json!({ first_parameter(tool, "content"): content });
    if tool.parameters.pointer("/properties/conclusion").is_some()
        && let Some(arguments) = arguments.as_object_mut()
    {
        arguments.insert("conclusion".to_owned(), temperament.conclusion().into());
    }
    Action::Call { remark: remark.to_owned(), tool: tool.name.clone(), arguments }
}

fn unfinished<'a>(update: &'a ToolSpec, request: &ModelRequest) -> Option<&'a str> {
    let is_done = |id: &str| {
        request.messages.iter().any(|message| match message {
            Message::User(text) => text.contains(&format!("\n- {id} (completed)")),
            Message::Assistant { tool_calls, .. } => tool_calls.iter().any(|call| {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
                call.name == update.name && arguments.get("id").is_some_and(|value| value == id)
            }),
            Message::Tool { .. } => false,
        })
    };
    allowed(update, "/properties/id/enum").into_iter().find(|id| !is_done(id))
}

fn allowed<'a>(tool: &'a ToolSpec, pointer: &str) -> Vec<&'a str> {
    let values = tool.parameters.pointer(pointer).and_then(Value::as_array);
    values.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn first_parameter(tool: &ToolSpec, usual: &str) -> String {
    let properties = tool.parameters.get("properties");
    if properties.is_some_and(|properties| properties.get(usual).is_some()) {
        return usual.to_owned();
    }
    tool.parameters.pointer("/required/0").and_then(Value::as_str).unwrap_or(usual).to_owned()
}
