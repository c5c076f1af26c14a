//! Asks the MCP client's user for approval before a run starts, if the config requires it or the run needs more
//! access than runs have without approval. Every other call counts as approved: the client has its own approval of
//! tool calls.

use althing_protocol::LaunchRun;
use althing_text::sanitize;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequests, InputRequiredResult, ProtocolVersion,
};
use rmcp::service::RequestContext;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

pub(super) enum Approval {
    Given,
    /// The run is denied, with the reason for the client's model.
    Denied(String),
    Ask(Box<InputRequiredResult>),
}

/// Open questions to clients of the newest protocol revision. Such a client asks the user, and then repeats the tool
/// call with the answer.
#[derive(Default)]
pub(super) struct Approvals {
    /// The runs to approve, by the state token that the client sends back. An answer is valid once, for exactly that run.
    open: Mutex<HashMap<String, LaunchRun>>,
}

/// A question beyond the limit drops all earlier ones, which then cannot be answered.
const MOST_OPEN: usize = 256;

const KEY: &str = "approve";

impl Approvals {
    /// `question` is the text that shows the run; `reason` says why this run needs approval, if the config does not
    /// require it for all runs.
    pub(super) async fn ask(
        &self,
        launch: &LaunchRun,
        question: &str,
        reason: Option<&str>,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Approval {
        let capable = context
            .client_capabilities()
            .and_then(|capabilities| capabilities.elicitation)
            .is_some_and(|can| can.form.is_some() || can.url.is_none());
        if !capable {
            let why = reason.map_or_else(
                || {
                    "the configuration requires approval of every run, and this client cannot ask a person for it: \
                     start the run from Althing itself, or set `require_approval: false`"
                        .to_owned()
                },
                |reason| format!("{reason} This client cannot ask a person for approval."),
            );
            return Approval::Denied(why);
        }
        let newest = context
            .protocol_version()
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        if newest {
            return self.round_trip(launch, elicitation(question, reason), request);
        }
        match context.peer.create_elicitation(elicitation(question, reason)).await {
            Ok(answer) => approval_of(&answer),
            Err(error) => Approval::Denied(format!("the approval could not be asked for: {error}")),
        }
    }

    fn round_trip(
        &self,
        launch: &LaunchRun,
        question: ElicitRequestParams,
        request: &CallToolRequestParams,
    ) -> Approval {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = &request.request_state {
            let asked = open.remove(state);
            if asked.as_ref() != Some(launch) {
                return Approval::Denied("this approval is not valid for this run; ask again".to_owned());
            }
            let answer = request.input_responses.as_ref().and_then(|answers| answers.get(KEY));
            let answer =
                answer.and_then(|answer| serde_json::from_value::<ElicitResult>(answer.clone()).ok());
            return answer.map_or_else(
                || Approval::Denied("the approval came without an answer".to_owned()),
                |answer| approval_of(&answer),
            );
        }
        let state = match crate::web::Token::generate() {
            Ok(state) => state.reveal().to_owned(),
            Err(reason) => return Approval::Denied(reason),
        };
        if open.len() >= MOST_OPEN {
            open.clear();
        }
        open.insert(state.clone(), launch.clone());
        let questions =
            InputRequests::from([(KEY.to_owned(), InputRequest::Elicitation(ElicitRequest::new(question)))]);
        Approval::Ask(Box::new(InputRequiredResult::new(Some(questions), Some(state))))
    }
}

fn approval_of(answer: &ElicitResult) -> Approval {
    match answer.action {
        ElicitationAction::Accept => Approval::Given,
        ElicitationAction::Decline => Approval::Denied("the user declined the run".to_owned()),
        ElicitationAction::Cancel => {
            Approval::Denied("the user gave no answer; the run was not started".to_owned())
        }
        _ => Approval::Denied("the answer is invalid; the run was not started".to_owned()),
    }
}

/// Accepting is the answer; there is nothing to fill in.
fn elicitation(question: &str, reason: Option<&str>) -> ElicitRequestParams {
    let reason = reason.map(|reason| format!("\n{}", sanitize::line(reason))).unwrap_or_default();
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!("{question}{reason}"),
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_changes_neither_the_order_nor_the_lines_of_a_question() {
        let asked = elicitation("Launch this run?", Some("needs /a/\u{202e}cod\nMay write nothing"));
        let ElicitRequestParams::FormElicitationParams { message, .. } = asked else { panic!("a form") };
        assert!(!message.contains('\u{202e}'), "{message:?}");
        assert_eq!(message.lines().count(), 2, "{message:?}");
    }
}
