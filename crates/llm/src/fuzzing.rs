//! Entry points for fuzzing: parses any bytes, split anywhere, as a stream of any wire format. Only compiled with the
//! feature `fuzzing`.

use crate::error::CallFailure;
use crate::partial_reply::StreamEnd;
use crate::providers::{self, Api};
use crate::reply_stream::ReplyStream;
use crate::wire::{FinishedReply, StreamReader as _, Wire};
use crate::{chat, error_response, gemini, messages, responses};
use althing_protocol::{BackendConfig, BackendErrorKind, Delta, DeltaSink, Reply};
use reqwest::StatusCode;

#[derive(Clone, Debug, PartialEq)]
pub struct ParsedReply {
    pub deltas: Vec<String>,
    pub end: Result<Reply, (BackendErrorKind, String)>,
}

pub fn streamed(kind: &str, pieces: &[&[u8]]) -> Option<ParsedReply> {
    match wire(kind)? {
        AnyWire::Chat(wire) => Some(stream(&wire, pieces)),
        AnyWire::Responses(wire) => Some(stream(&wire, pieces)),
        AnyWire::Messages(wire) => Some(stream(&wire, pieces)),
        AnyWire::Gemini(wire) => Some(stream(&wire, pieces)),
    }
}

pub fn whole(kind: &str, body: &[u8]) -> Option<ParsedReply> {
    match wire(kind)? {
        AnyWire::Chat(wire) => Some(one(&wire, body)),
        AnyWire::Responses(wire) => Some(one(&wire, body)),
        AnyWire::Messages(wire) => Some(one(&wire, body)),
        AnyWire::Gemini(wire) => Some(one(&wire, body)),
    }
}

pub fn refused(status: u16, body: &[u8]) -> Option<(BackendErrorKind, String)> {
    let failure = error_response::failure_from(StatusCode::from_u16(status).ok()?, None, body);
    Some((failure.kind, failure.what))
}

enum AnyWire {
    Chat(chat::Chat),
    Responses(responses::Responses),
    Messages(messages::Messages),
    Gemini(gemini::Gemini),
}

fn wire(kind: &str) -> Option<AnyWire> {
    let provider = providers::provider(kind)?;
    let config = BackendConfig {
        kind: kind.to_owned(),
        model: Some("model".to_owned()),
        base_url: Some("http://127.0.0.1".to_owned()),
        api_key: None,
        headers: Vec::new(),
        params: serde_json::Map::new(),
        options: althing_protocol::AgentOptions::default(),
    };
    Some(match provider.api {
        Api::Chat | Api::AzureChat => AnyWire::Chat(chat::Chat::new(&config, provider).ok()?.0),
        Api::Responses => AnyWire::Responses(responses::Responses::new(&config, provider).ok()?.0),
        Api::Messages => AnyWire::Messages(messages::Messages::new(&config, provider).ok()?.0),
        Api::Gemini => AnyWire::Gemini(gemini::Gemini::new(&config, provider).ok()?.0),
    })
}

fn stream<W: Wire>(wire: &W, pieces: &[&[u8]]) -> ParsedReply {
    let mut reply_stream = ReplyStream::new(wire.reader());
    parsed(|on_delta| {
        let mut ended = StreamEnd::Whole;
        for piece in pieces {
            if let Err(failure) = reply_stream.take(piece, on_delta) {
                ended = StreamEnd::Broken(failure);
                break;
            }
            if reply_stream.is_done() {
                break;
            }
        }
        reply_stream.end(ended, on_delta, 0)
    })
}

fn one<W: Wire>(wire: &W, body: &[u8]) -> ParsedReply {
    let mut reader = wire.reader();
    parsed(|on_delta| {
        let ended = match reader.event(body, on_delta) {
            Ok(()) => StreamEnd::Document,
            Err(failure) => StreamEnd::Broken(failure),
        };
        reader.end(ended, 0)
    })
}

fn parsed(read: impl FnOnce(&mut DeltaSink<'_>) -> Result<FinishedReply, CallFailure>) -> ParsedReply {
    let mut deltas = Vec::new();
    let mut show = |delta: Delta<'_>| deltas.push(format!("{delta:?}"));
    let end = read(&mut (&mut show as DeltaSink<'_>));
    ParsedReply {
        deltas,
        end: end.map(|finished| finished.reply).map_err(|failure| (failure.kind, failure.what)),
    }
}
