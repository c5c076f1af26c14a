//! Parses an event from its JSON: by a fast path if the fields are in the order in which the log writes them, by serde
//! otherwise. The fast path matters when a million events are replayed.

use althing_protocol::{
    AttemptOutcome, CallRecord, Decision, Event, Fact, InteractionId, Item, Op, OpId, Origin, Phase, Purpose,
    Seq, TaskId, TaskSpec, TaskStatus, Usage,
};
use serde::Deserialize;

/// Parses an event. Unknown fields, such as the checksum, are ignored.
pub(crate) fn read_event(line: &str) -> Result<Event, serde_json::Error> {
    parse_canonical(line).map_or_else(|| serde_json::from_str(line), Ok)
}

/// Parses a line whose fields are in the order in which the log writes them; `None` for any other line.
pub(crate) fn parse_canonical(line: &str) -> Option<Event> {
    let (seq, rest) = number(line.strip_prefix("{\"seq\":")?)?;
    let (at, rest) = rest.strip_prefix(",\"at\":\"")?.split_once('"')?;
    let rest = rest.strip_prefix(",\"task\":")?;
    let (task, rest) = if let Some(rest) = rest.strip_prefix("null") {
        (None, rest)
    } else {
        let (task, rest) = rest.strip_prefix('"')?.split_once('"')?;
        if task.contains('\\') {
            return None;
        }
        (Some(TaskId::from(task)), rest)
    };
    let rest = rest.strip_prefix(",\"cause\":")?;
    let (cause, rest) = match rest.strip_prefix("null") {
        Some(rest) => (None, rest),
        None => number(rest).map(|(cause, rest)| (Some(cause), rest))?,
    };
    let (kind, rest) = rest.strip_prefix(",\"type\":\"")?.split_once('"')?;
    let (fact, rest) = fact_from(kind, rest.strip_prefix(",\"data\":")?).ok()?;
    // Further fields, such as the checksum, are ignored; only the end of the object is checked.
    let ends = rest == "}" || (rest.starts_with(",\"") && rest.ends_with('}'));
    ends.then_some(Event { seq, at: at.parse().ok()?, task, cause, fact })
}

fn number(text: &str) -> Option<(Seq, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(end)?;
    Some((Seq(digits.parse().ok()?), rest))
}

fn parse_prefix<'a, T: Deserialize<'a>>(text: &'a str) -> Result<(T, &'a str), serde_json::Error> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values.next().unwrap_or_else(|| Err(serde::de::Error::custom("no data")))?;
    Ok((value, text.get(values.byte_offset()..).unwrap_or_default()))
}

/// Parses the payload directly as the type that `kind` names: serde would buffer the payload of an adjacently tagged
/// enum.
fn fact_from<'a>(kind: &str, text: &'a str) -> Result<(Fact, &'a str), serde_json::Error> {
    macro_rules! fact {
        ($variant:ident) => { parse_prefix(text).map(|(data, rest)| (Fact::$variant(data), rest)) };
        ($variant:ident { $($(#[$attr:meta])* $field:ident: $type:ty),* }) => {{
            #[derive(Deserialize)]
            struct Data { $($(#[$attr])* $field: $type),* }
            parse_prefix(text).map(|(Data { $($field),* }, rest)| (Fact::$variant { $($field),* }, rest))
        }};
    }
    match kind {
        "session_opened" => fact!(SessionOpened),
        "session_closed" => fact!(SessionClosed {}),
        "op_accepted" => fact!(OpAccepted { op: Op, by: Origin, #[serde(default)] id: Option<OpId> }),
        "task_created" => fact!(TaskCreated { id: TaskId, parent: Option<TaskId>, spec: TaskSpec }),
        "status_changed" => fact!(StatusChanged { status: TaskStatus, why: Option<String> }),
        "attempt_started" => {
            fact!(AttemptStarted { attempt: u32, #[serde(flatten)] purpose: Purpose, continues: Option<u32> })
        }
        "attempt_ended" => fact!(AttemptEnded {
            attempt: u32,
            #[serde(flatten)]
            outcome: AttemptOutcome,
            #[serde(default)]
            usage: Usage,
            #[serde(default)]
            call: Option<CallRecord>
        }),
        "item_added" => fact!(ItemAdded { attempt: u32, item: Item }),
        "interaction_opened" => fact!(InteractionOpened),
        "interaction_closed" => fact!(InteractionClosed { id: InteractionId, decision: Decision }),
        "phase_changed" => fact!(PhaseChanged { phase: Phase }),
        "decided" => fact!(Decided),
        "notice" => fact!(Notice),
        "timer_fired" => fact!(TimerFired),
        other => Err(serde::de::Error::custom(format_args!("unknown type `{other}`"))),
    }
}
