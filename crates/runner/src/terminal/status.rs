//! OSC 7501, "program status": what a program in a terminal reports about itself.

use althing_protocol::AskKind;

const LONGEST: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramState {
    Idle,
    Working,
    Blocked,
    /// The program finished a turn and accepts another prompt.
    Done,
    /// The program failed and accepts another prompt.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) state: ProgramState,
    pub(crate) kind: AskKind,
    pub(crate) message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StatusMessage {
    /// The program asks whether this terminal supports the sequence.
    Query,
    Status(Status),
    Clear,
}

/// Parses `payload`, which follows `7501;`. `None` if it is invalid.
pub(crate) fn read(payload: &[u8]) -> Option<StatusMessage> {
    let payload = std::str::from_utf8(payload).ok()?;
    if payload == "?" {
        return Some(StatusMessage::Query);
    }
    let field = |name: &str| {
        payload.split(':').find_map(|field| field.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')))
    };
    let state = match field("state")? {
        "idle" => ProgramState::Idle,
        "working" => ProgramState::Working,
        "blocked" => ProgramState::Blocked,
        "done" => ProgramState::Done,
        "error" => ProgramState::Error,
        "clear" => return Some(StatusMessage::Clear),
        _ => return None,
    };
    let kind = match field("kind") {
        Some("permission") => AskKind::Permission,
        Some("question") => AskKind::Question,
        Some("auth") => AskKind::Auth,
        _ => AskKind::Other,
    };
    let message = field("msg").and_then(decode).unwrap_or_default();
    let message = super::sanitize_line::sanitize_line(&message, LONGEST);
    Some(StatusMessage::Status(Status { state, kind, message }))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(payload: &str) -> Status {
        match read(payload.as_bytes()) {
            Some(StatusMessage::Status(status)) => status,
            other => panic!("{payload}: {other:?}"),
        }
    }

    #[test]
    fn a_blocked_status_carries_the_kind_and_the_programs_own_message() {
        let status = status(
            "state=blocked:app=claude-code:kind=permission:msg=YXBwcm92ZSBCYXNoOiB0b3VjaCBwNzUwMS50eHQ=",
        );
        assert_eq!((status.state, status.kind), (ProgramState::Blocked, AskKind::Permission));
        assert_eq!(status.message, "approve Bash: touch p7501.txt");
    }

    #[test]
    fn invalid_or_hostile_messages_are_harmless() {
        assert_eq!(status("state=blocked:kind=question:msg=***").message, "");
        // The message is base64 for `ESC ]0;x BEL`.
        assert_eq!(status("state=blocked:msg=G10wO3gH").message, "]0;x");
        assert_eq!(status("state=idle").kind, AskKind::Other);
    }

    #[test]
    fn queries_and_clears_are_recognized_and_invalid_payloads_are_ignored() {
        assert_eq!(read(b"?"), Some(StatusMessage::Query));
        assert_eq!(read(b"state=clear"), Some(StatusMessage::Clear));
        for nonsense in [&b""[..], b"state", b"state=", b"state=sleepy", b"app=x", b"\xff"] {
            assert_eq!(read(nonsense), None);
        }
    }
}
