//! The failures of this crate: of building a backend, and of one attempt at a call.
//!
//! Here is decided what a failure is called, whether it is worth another try, and what a person is told to do. No
//! message here may ever carry a key: provider texts pass through [`clean`].

use crate::limits::{MAX_RETRIES, MAX_SLOW_RETRIES, PROVIDER_MESSAGE_CHARS};
use crate::prices::Counted;
use althing_protocol::BackendErrorKind;
use std::time::Duration;

/// Why a backend could not be built. None of these goes away by trying again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No wire of ours speaks to it.
    #[error("backend type `{kind}` is not supported")]
    UnknownKind {
        /// The config's `backend.type`.
        kind: String,
    },
    /// The type has no default model.
    #[error("backend type `{kind}` needs a `model`")]
    NoModel {
        /// The config's `backend.type`.
        kind: String,
    },
    /// The type has no address of its own.
    #[error("backend type `{kind}` needs a `base_url`")]
    NoAddress {
        /// The config's `backend.type`.
        kind: String,
    },
    /// The address is not one.
    #[error("`base_url` of backend type `{kind}` is not an http or https address")]
    BadAddress {
        /// The config's `backend.type`.
        kind: String,
    },
    /// The key has characters that no header can carry.
    #[error("the API key of backend type `{kind}` has characters that cannot be sent in a header")]
    BadKey {
        /// The config's `backend.type`.
        kind: String,
    },
    /// A header's name or value cannot be sent.
    #[error("header `{name}` cannot be sent: its name or value is not valid in HTTP")]
    BadHeader {
        /// The header's name.
        name: String,
    },
    /// A parameter of ours has a wrong value.
    #[error("`{name}` must be {expected}")]
    BadParam {
        /// The parameter.
        name: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The extra certificate authority cannot be used.
    #[error("the extra CA file cannot be used: {reason}")]
    BadCa {
        /// What is wrong with it.
        reason: String,
    },
    /// The HTTP client could not be set up.
    #[error("the HTTP client could not be set up: {reason}")]
    Client {
        /// What it said.
        reason: String,
    },
}

impl BuildError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKind { .. } => Some(
                "for a server that speaks the OpenAI chat-completions API use `type: chatcompletion` with `base_url`"
                    .to_owned(),
            ),
            Self::NoModel { .. } => Some("add `model:` to the backend section".to_owned()),
            Self::NoAddress { .. } => Some("add `base_url:` to the backend section".to_owned()),
            Self::BadAddress { .. } => {
                Some("write it in full, for example `http://localhost:8000/v1`".to_owned())
            }
            Self::BadKey { .. } => Some("check it for line breaks and stray characters".to_owned()),
            Self::BadCa { .. } => Some("it must hold certificates in PEM form".to_owned()),
            Self::BadHeader { .. } | Self::BadParam { .. } | Self::Client { .. } => None,
        }
    }
}

/// How often a failed attempt may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Not at all.
    Never,
    /// At most so many times, after a backoff.
    AtMost(u32),
}

/// Why one attempt failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: BackendErrorKind,
    /// What happened, without provider and model: the backend puts those in front.
    pub(crate) what: String,
    /// What a person can do, where the failure itself knows; else the backend's hint for the kind.
    pub(crate) hint: Option<Box<str>>,
    pub(crate) again: Again,
    /// The wait that the provider asked for.
    pub(crate) after: Option<Duration>,
    /// What the attempt cost all the same; its call is counted by the loop.
    pub(crate) counted: Counted,
    /// The HTTP status, where there was one.
    pub(crate) status: Option<u16>,
}

impl Failure {
    /// A failure with its kind's own rule about trying again.
    pub(crate) fn new(kind: BackendErrorKind, what: impl Into<String>) -> Self {
        let again = match kind {
            BackendErrorKind::RateLimited
            | BackendErrorKind::Server
            | BackendErrorKind::Cut
            | BackendErrorKind::Protocol => Again::AtMost(MAX_RETRIES),
            BackendErrorKind::Connect | BackendErrorKind::Timeout | BackendErrorKind::Empty => {
                Again::AtMost(MAX_SLOW_RETRIES)
            }
            BackendErrorKind::Auth
            | BackendErrorKind::NotFound
            | BackendErrorKind::BadRequest
            | BackendErrorKind::TooLarge => Again::Never,
        };
        Self {
            kind,
            what: what.into(),
            hint: None,
            again,
            after: None,
            counted: Counted::default(),
            status: None,
        }
    }

    /// The same, with its own advice.
    pub(crate) fn with_hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, not to be tried again.
    pub(crate) fn for_good(mut self) -> Self {
        self.again = Again::Never;
        self
    }
}

impl From<crate::sse::EventTooLarge> for Failure {
    fn from(_: crate::sse::EventTooLarge) -> Self {
        Self::new(BackendErrorKind::TooLarge, "one event of the stream is larger than 8 MiB")
    }
}

/// A provider's text made fit to show: on one line, without control characters, cut, and with every secret blotted
/// out (some providers quote the key that they refuse).
pub(crate) fn clean<'s>(text: &str, secrets: impl IntoIterator<Item = &'s str>) -> String {
    let mut text = text.to_owned();
    for secret in secrets.into_iter().filter(|secret| secret.len() >= 4) {
        text = text.replace(secret, "…");
    }
    let mut shown = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        // Cut between words: half of somebody else's key would no longer be known for one.
        if shown.chars().count() + word.chars().count() > PROVIDER_MESSAGE_CHARS {
            shown.push('…');
            return shown;
        }
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(word);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_providers_text_is_one_line_cut_and_without_the_key_or_terminal_escapes() {
        let text = format!("bad\n key\u{1b}[2J sk-secret! {}{}", "word ".repeat(55), "x".repeat(50));
        let shown = clean(&text, ["sk-secret"]);
        assert!(shown.starts_with("bad key [2J …! word"), "{shown}");
        assert!(shown.chars().count() <= PROVIDER_MESSAGE_CHARS + 1);
        assert!(shown.ends_with("word…"), "cut between words: {shown}");
    }

    #[test]
    fn an_attempt_is_only_made_again_where_the_port_says_that_its_kind_can_be() {
        use BackendErrorKind as Kind;
        for kind in [
            Kind::Auth,
            Kind::NotFound,
            Kind::BadRequest,
            Kind::RateLimited,
            Kind::Server,
            Kind::Connect,
            Kind::Cut,
            Kind::Timeout,
            Kind::Protocol,
            Kind::TooLarge,
            Kind::Empty,
        ] {
            assert_eq!(Failure::new(kind, "").again != Again::Never, kind.retryable(), "{kind:?}");
        }
    }
}
