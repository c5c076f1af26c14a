//! Errors of building a backend, and of one attempt at a model call. No message may contain a key: provider texts
//! pass through [`sanitize`].

use crate::limits::{MAX_RETRIES, MAX_SLOW_RETRIES, PROVIDER_MESSAGE_CHARS};
use crate::prices::TokenCounts;
use althing_protocol::BackendErrorKind;
use std::time::Duration;

/// Why a backend cannot be built; retrying does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("backend type `{kind}` is not supported")]
    UnknownKind { kind: String },
    #[error("backend type `{kind}` needs a `model`")]
    NoModel { kind: String },
    #[error("`{part}` cannot be a part of the name of a `model`")]
    BadModel { part: String },
    #[error("backend type `{kind}` needs a `base_url`")]
    NoAddress { kind: String },
    #[error("`base_url` of backend type `{kind}` is not an http or https address")]
    BadAddress { kind: String },
    #[error("the API key of backend type `{kind}` has characters that cannot be sent in a header")]
    BadKey { kind: String },
    #[error("header `{name}` cannot be sent: its name or value is not valid in HTTP")]
    BadHeader { name: String },
    #[error("`{name}` must be {expected}")]
    BadParam { name: &'static str, expected: &'static str },
    #[error("the extra CA file cannot be used: {reason}")]
    BadCa { reason: String },
    #[error("the HTTP client could not be set up: {reason}")]
    Client { reason: String },
}

impl BuildError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKind { .. } => Some(
                "for a server with the OpenAI chat-completions API use `type: chatcompletion` with `base_url`"
                    .to_owned(),
            ),
            Self::NoModel { .. } => Some("add `model:` to the backend section".to_owned()),
            Self::BadModel { .. } => Some("write the name as the provider lists it".to_owned()),
            Self::NoAddress { .. } => Some("add `base_url:` to the backend section".to_owned()),
            Self::BadAddress { .. } => {
                Some("write it in full, for example `http://localhost:8000/v1`".to_owned())
            }
            Self::BadKey { .. } => Some("check it for line breaks and stray characters".to_owned()),
            Self::BadCa { .. } => Some("SSL_CERT_FILE must name a file with certificates in PEM format".to_owned()),
            Self::BadHeader { .. } | Self::BadParam { .. } | Self::Client { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    Never,
    /// At most this many retries; fewer if `max_retries` is lower.
    AtMost(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct CallFailure {
    pub(crate) kind: BackendErrorKind,
    /// The message without provider and model, which the backend prepends.
    pub(crate) what: String,
    /// If this is `None`, the backend's hint for the kind of failure is shown.
    pub(crate) hint: Option<Box<str>>,
    pub(crate) retry: RetryPolicy,
    /// The wait that the provider requests.
    pub(crate) after: Option<Duration>,
    pub(crate) counted: TokenCounts,
    pub(crate) status: Option<u16>,
}

impl CallFailure {
    pub(crate) fn new(kind: BackendErrorKind, what: impl Into<String>) -> Self {
        let retry = match kind {
            BackendErrorKind::RateLimited
            | BackendErrorKind::Server
            | BackendErrorKind::Cut
            | BackendErrorKind::Protocol => RetryPolicy::AtMost(MAX_RETRIES),
            BackendErrorKind::Connect | BackendErrorKind::Timeout | BackendErrorKind::Empty => {
                RetryPolicy::AtMost(MAX_SLOW_RETRIES)
            }
            BackendErrorKind::Auth
            | BackendErrorKind::NotFound
            | BackendErrorKind::BadRequest
            | BackendErrorKind::TooLarge
            | BackendErrorKind::CostLimit => RetryPolicy::Never,
        };
        Self {
            kind,
            what: what.into(),
            hint: None,
            retry,
            after: None,
            counted: TokenCounts::default(),
            status: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A rate limit that passes, unlike an exhausted quota.
    pub(crate) fn is_passing_limit(&self) -> bool {
        self.kind == BackendErrorKind::RateLimited && self.retry != RetryPolicy::Never
    }

    pub(crate) fn permanent(mut self) -> Self {
        self.retry = RetryPolicy::Never;
        self
    }
}

impl From<crate::sse::EventTooLarge> for CallFailure {
    fn from(_: crate::sse::EventTooLarge) -> Self {
        Self::new(BackendErrorKind::TooLarge, "one event of the stream is larger than 8 MiB")
    }
}

/// A provider's text made safe to show: one line, no control characters, shortened, and with every secret of at least
/// four bytes replaced. Some providers quote the key that they reject.
pub(crate) fn sanitize<'s>(text: &str, secrets: impl IntoIterator<Item = &'s str>) -> String {
    let mut text = text.to_owned();
    for secret in secrets.into_iter().filter(|secret| secret.len() >= 4) {
        text = text.replace(secret, "…");
    }
    let mut shown = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        // Cut between words, so that no partial secret remains that masking would not recognize.
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
        let shown = sanitize(&text, ["sk-secret"]);
        assert!(shown.starts_with("bad key [2J …! word"), "{shown}");
        assert!(shown.chars().count() <= PROVIDER_MESSAGE_CHARS + 1);
        assert!(shown.ends_with("word…"), "cut between words: {shown}");
    }

    #[test]
    fn an_attempt_is_retried_only_if_its_kind_is_retryable() {
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
            assert_eq!(CallFailure::new(kind, "").retry != RetryPolicy::Never, kind.retryable(), "{kind:?}");
        }
    }
}
