//! Plans one request to a model: with which tools, limits and schema; and reads the calls that the model writes as
//! text.

use super::facts::{ServerFacts, ServerKind};
use super::{LocalCalls, fit};
use crate::tool_calling::{
    CallForm, CallStream, WrittenReply, call_schema, described, read_schema_reply, written_calls,
};
use althing_protocol::{CallsFrom, ModelRequest, Reply};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The maximum part of the context that is kept for the reply, in tokens.
const MAX_REPLY: u64 = 4096;
const LEAST_REPLY: u64 = 256;

/// Fields of a request that are added to the backend's parameters or replace some of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestShape {
    /// Replaces the `response_format` of the parameters.
    pub(crate) response_format: Option<Value>,
    /// The output limit if the parameters contain none.
    pub(crate) max_tokens: Option<u64>,
    /// Whether `tool_choice` must not demand a call, because llama.cpp then writes up to the output limit.
    pub(crate) no_required_call: bool,
    /// Whether llama.cpp is asked to report how much of the prompt it has processed.
    pub(crate) prompt_progress: bool,
}

pub(crate) struct CallPlan<'a> {
    pub(crate) form: CallForm,
    pub(crate) request: Cow<'a, ModelRequest>,
    pub(crate) shape: RequestShape,
    /// The request before anything was described or shortened in it.
    original: &'a ModelRequest,
    reads_text: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    AsAsked,
    /// The model wrote a call as text although it was offered native tool calls.
    WroteCall,
}

impl<'a> CallPlan<'a> {
    pub(crate) fn new(request: &'a ModelRequest, calls: &LocalCalls, facts: &ServerFacts) -> Self {
        let tools = request.tools.as_slice();
        let form = if tools.is_empty() { CallForm::Native } else { calls.form(facts) };
        let mut asked = match form {
            CallForm::Native => Cow::Borrowed(request),
            CallForm::Schema | CallForm::Text => Cow::Owned(described(request, form)),
        };
        let mut shape = RequestShape {
            no_required_call: matches!(facts.server, ServerKind::LlamaCpp | ServerKind::LlamaCppPython),
            prompt_progress: facts.server == ServerKind::LlamaCpp,
            ..RequestShape::default()
        };
        if form == CallForm::Schema {
            let schema = json!({"name": "reply", "strict": true, "schema": call_schema(tools)});
            shape.response_format = Some(json!({"type": "json_schema", "json_schema": schema}));
        }
        if let Some(context) = calls.context(facts) {
            let reply = (context / 4).clamp(LEAST_REPLY.min(context / 2), MAX_REPLY);
            let limit = (context - reply) * u64::from(100 - calls.shrink_percent()) / 100;
            if fit::estimate(&asked) > limit {
                fit::fit(asked.to_mut(), limit);
            }
            shape.max_tokens = Some(match form {
                CallForm::Native => context.saturating_sub(fit::estimate(&asked)).max(reply),
                CallForm::Schema | CallForm::Text => reply,
            });
        }
        let reads_text = !tools.is_empty() && (form != CallForm::Native || calls.adapts);
        Self { form, request: asked, shape, original: request, reads_text }
    }

    /// `None` if everything is shown.
    pub(crate) fn view(&self) -> Option<CallStream> {
        match self.form {
            CallForm::Schema => Some(CallStream::of_schema()),
            CallForm::Text | CallForm::Native => self.reads_text.then(CallStream::of_text),
        }
    }

    pub(crate) fn interpret(&self, reply: &mut Reply, view: Option<CallStream>) -> Finding {
        if !self.reads_text || !reply.tool_calls.is_empty() || reply.text.is_empty() {
            return Finding::AsAsked;
        }
        let read = match self.form {
            // Half a call may do harm, so a reply that was cut is not read for calls.
            _ if reply.cut => None,
            CallForm::Schema => read_schema_reply(&reply.text, self.original),
            CallForm::Text | CallForm::Native => written_calls(&reply.text, self.original),
        };
        match read {
            Some(WrittenReply { calls, text }) => {
                let from = if self.form == CallForm::Schema { CallsFrom::Schema } else { CallsFrom::Text };
                reply.calls_from = (!calls.is_empty()).then_some(from);
                (reply.tool_calls, reply.text) = (calls, text);
            }
            // If no call or text can be read from a reply that begins with a JSON object, for example because the reply
            // was cut, only its readable part is kept.
            None => {
                if reply.text.trim_start().starts_with('{')
                    && let Some(readable) = view.and_then(CallStream::readable)
                {
                    reply.text = readable;
                }
            }
        }
        let wrote = self.form == CallForm::Native && !reply.tool_calls.is_empty();
        if wrote { Finding::WroteCall } else { Finding::AsAsked }
    }
}
