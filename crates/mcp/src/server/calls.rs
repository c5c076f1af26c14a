//! Executes calls (`tools/call`) to the six tools of the MCP server.

use super::AlthingServer;
use super::approval::Approval;
use super::arguments;
use super::follow::{ProgressReporter, WaitOutcome, follow};
use super::runs::{RunFeed, RunOutcome, RunService, RunSummary};
use super::{tasks, tools};
use althing_protocol::{Decision, InteractionId, LaunchRun, RunStatus};
use althing_text::nearest;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

const CANCEL_WAIT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct RunOnly {
    run_id: String,
}

#[derive(Deserialize)]
struct ResultArguments {
    run_id: String,
    wait_seconds: Option<f64>,
}

#[derive(Deserialize)]
struct ListArguments {
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct AnswerArguments {
    run_id: String,
    interaction_id: InteractionId,
    #[serde(flatten)]
    decision: Decision,
}

/// The client's model reads the reason.
pub(super) fn failed(reason: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(reason.into())])
}

impl AlthingServer {
    /// Only cancellation is a protocol error.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools.iter().find(|tool| tool.spec.name == request.name) else {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.spec.name.as_str()).collect();
            let advice = arguments::suggestion(&request.name, &names);
            return Ok(failed(format!("there is no tool `{}`: {advice}", request.name)).into());
        };
        let schema = &tool.spec.parameters;
        let called = match tool.spec.name.as_str() {
            tools::LAUNCH => return self.launch(schema, request, context).await,
            tools::STATUS => self.status(schema, request.arguments).await,
            tools::RESULT => {
                tokio::select! {
                    biased;
                    () = context.ct.cancelled() => return Err(cancelled()),
                    result = self.result(schema, request.arguments, &context) => result,
                }
            }
            tools::LIST => self.list(schema, request.arguments).await,
            tools::CANCEL => self.cancel(schema, request.arguments, &context).await,
            tools::ANSWER => self.answer(schema, request.arguments).await,
            other => Err(format!("there is no tool `{other}`")),
        };
        Ok(called.unwrap_or_else(failed).into())
    }

    async fn launch(
        &self,
        schema: &Value,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut launch: LaunchRun = match arguments::parse(schema, request.arguments.clone()) {
            Ok(launch) => launch,
            Err(problem) => return Ok(failed(problem).into()),
        };
        let reason =
            if self.options.require_approval { None } else { self.runs.needs_approval(&launch).await };
        let asks = self.options.require_approval || reason.is_some();
        if asks {
            // The approval holds for the paths that the question shows, even if a link is changed meanwhile.
            launch = self.runs.resolve_links(launch).await;
            let question = match self.runs.approval_question(&launch) {
                Ok(question) => question,
                Err(problem) => return Ok(failed(problem).into()),
            };
            let asking = self.approvals.ask(&launch, &question, reason.as_deref(), &request, &context);
            match crate::keepalive::while_waiting(&context, self.options.keepalive, asking).await {
                Approval::Given => {}
                Approval::Denied(reason) => return Ok(failed(format!("not started: {reason}")).into()),
                Approval::Ask(question) => return Ok((*question).into()),
            }
        }
        let run = match self.runs.launch(launch, asks).await {
            Ok(run) => run,
            Err(reason) => return Ok(failed(reason).into()),
        };
        let Some(mut feed) = self.runs.follow(&run).await else {
            return Ok(running(&run).into());
        };
        let mut reporter = ProgressReporter::new(&context);
        let waiting = follow(&mut *feed, self.options.wait, self.options.keepalive, &mut reporter);
        let outcome = tokio::select! {
            biased;
            () = context.ct.cancelled() => {
                let _ = self.runs.cancel(&run).await;
                return Err(cancelled());
            }
            outcome = waiting => outcome,
        };
        let knows_tasks =
            context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
        if knows_tasks && matches!(outcome, WaitOutcome::StillRunning) {
            return Ok(tasks::start(&self.tasks, self.runs.clone(), run, feed).into());
        }
        Ok(self.waited(&run, outcome).into())
    }

    async fn wait(
        &self,
        run: &str,
        feed: &mut dyn RunFeed,
        at_most: Duration,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let mut reporter = ProgressReporter::new(context);
        let outcome = follow(feed, at_most, self.options.keepalive, &mut reporter).await;
        self.waited(run, outcome)
    }

    fn waited(&self, run: &str, outcome: WaitOutcome) -> CallToolResult {
        match outcome {
            WaitOutcome::Ended(outcome) => ended(&*self.runs, &outcome),
            WaitOutcome::StillRunning => running(run),
            WaitOutcome::Question(interaction) => {
                let asks = json!({"run_id": run, "status": "running", "interactions": [*interaction]});
                let mut result = CallToolResult::structured(asks);
                result.content.push(ContentBlock::text(
                    "The run is waiting for an answer to this question: call `answer_interaction`, then `run_result`.",
                ));
                result
            }
        }
    }

    async fn status(&self, schema: &Value, given: Option<JsonObject>) -> Result<CallToolResult, String> {
        let RunOnly { run_id } = arguments::parse(schema, given)?;
        let Some(view) = self.runs.view(&run_id).await else {
            return Err(self.unknown(&run_id).await);
        };
        Ok(CallToolResult::structured(in_brief(&view)))
    }

    async fn result(
        &self,
        schema: &Value,
        given: Option<JsonObject>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        let ResultArguments { run_id, wait_seconds } = arguments::parse(schema, given)?;
        let wait = match wait_seconds.map(Duration::try_from_secs_f64) {
            None => self.options.wait,
            Some(Ok(wait)) => wait.min(self.options.wait),
            Some(Err(_)) => return Err("parameter `wait_seconds` must be 0 or more".to_owned()),
        };
        if let Some(outcome) = self.runs.result(&run_id).await {
            return Ok(ended(&*self.runs, &outcome));
        }
        match self.runs.follow(&run_id).await {
            Some(mut feed) => Ok(self.wait(&run_id, &mut *feed, wait, context).await),
            None => Err(self.unknown(&run_id).await),
        }
    }

    async fn list(&self, schema: &Value, given: Option<JsonObject>) -> Result<CallToolResult, String> {
        let ListArguments { limit } = arguments::parse(schema, given)?;
        let runs: Vec<Value> = self.runs.list(limit.unwrap_or(20)).await.iter().map(in_brief).collect();
        Ok(CallToolResult::structured(json!({"runs": runs})))
    }

    async fn cancel(
        &self,
        schema: &Value,
        given: Option<JsonObject>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        let RunOnly { run_id } = arguments::parse(schema, given)?;
        let Some(mut feed) = self.runs.follow(&run_id).await else {
            return Err(self.unknown(&run_id).await);
        };
        self.runs.cancel(&run_id).await?;
        Ok(self.wait(&run_id, &mut *feed, CANCEL_WAIT, context).await)
    }

    async fn answer(&self, schema: &Value, given: Option<JsonObject>) -> Result<CallToolResult, String> {
        let AnswerArguments { run_id, interaction_id, decision } = arguments::parse(schema, given)?;
        if self.runs.view(&run_id).await.is_none() {
            return Err(self.unknown(&run_id).await);
        }
        self.runs.answer(&run_id, interaction_id, decision).await?;
        Ok(CallToolResult::structured(json!({"run_id": run_id, "answered": true})))
    }

    pub(super) async fn unknown(&self, run: &str) -> String {
        let known = self.runs.list(100).await;
        let near = nearest(run, known.iter().map(|view| view.run_id.as_str()));
        let advice = near.map_or_else(
            || "`list_runs` lists the runs".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        format!("parameter `run_id`: there is no run `{run}`: {advice}")
    }
}

fn cancelled() -> ErrorData {
    ErrorData::internal_error("the call was cancelled", None)
}

pub(super) fn ended(runs: &dyn RunService, outcome: &RunOutcome) -> CallToolResult {
    let value = match serde_json::to_value(runs.for_tool_result(outcome)) {
        Ok(value) => value,
        Err(error) => {
            let why = format!("the run has ended, but its result cannot be written as JSON: {error}");
            return CallToolResult::error(vec![ContentBlock::text(why)]);
        }
    };
    if outcome.status() == RunStatus::Failed {
        CallToolResult::structured_error(value)
    } else {
        CallToolResult::structured(value)
    }
}

fn running(run: &str) -> CallToolResult {
    let mut result = CallToolResult::structured(json!({"run_id": run, "status": "running"}));
    result.content.push(ContentBlock::text(
        "The run is still running. Call `run_result` with this run_id to wait for its result; repeat if necessary.",
    ));
    result
}

pub(super) fn in_brief(view: &RunSummary) -> Value {
    let status = view.status.map_or_else(|| json!("running"), |status| json!(status));
    json!({
        "run_id": view.run_id,
        "task": view.task,
        "status": status,
        "progress": view.progress,
        "interactions": view.interactions,
    })
}
