//! The time and size limits of a model call. A limit whose comment names a key can be changed per backend in the
//! config.

use crate::BuildError;
use serde_json::{Map, Value};
use std::time::Duration;

/// The limit for opening a connection, including name lookup and TLS. Key: `connect_timeout_seconds`.
pub const CONNECT: Duration = Duration::from_secs(10);
/// The limit from the request to the response headers, including connecting. Key: `first_byte_timeout_seconds`.
pub const FIRST_BYTE: Duration = Duration::from_mins(2);
/// The limit between two complete events or comments of the stream, and for the whole body of a reply that is not
/// streamed. Key: `idle_timeout_seconds`.
pub const IDLE: Duration = Duration::from_mins(2);
/// The limit for all attempts of a call and the waits between them. Key: `request_timeout_seconds`.
pub const WHOLE_CALL: Duration = Duration::from_mins(30);
/// The wait for the usage and the end of the stream, after the model has finished the reply.
pub const TAIL: Duration = Duration::from_secs(5);
/// The wait for the end of the HTTP body after the stream's end marker. Without that end, the connection cannot be
/// reused.
pub const DRAIN: Duration = Duration::from_millis(100);
pub const ERROR_BODY_TIME: Duration = Duration::from_secs(5);
/// The limit for connecting while local servers are detected.
pub const LOCAL_CONNECT: Duration = Duration::from_millis(200);
/// The limit for listing a server's models by name, including connecting.
pub const LOCAL_WHOLE: Duration = Duration::from_secs(1);
/// The limit for each question to a local model server about what it is, including connecting.
pub const PROBE_WHOLE: Duration = Duration::from_secs(2);
/// Replaces [`FIRST_BYTE`] for a recognized local server, which may have to load the model and to read a long prompt
/// first. Key: `first_byte_timeout_seconds`.
pub const LOCAL_FIRST_BYTE: Duration = Duration::from_mins(10);
/// How long a recognized local server may be silent before the call is shown as waiting.
pub const WAITING_SHOWN: Duration = Duration::from_secs(5);
/// The wait before a call is sent again to a server that is loading its model. Only the limit of the whole call ends
/// these waits.
pub const LOADING_WAIT: Duration = Duration::from_secs(1);
pub const KEEP_ALIVE: Duration = Duration::from_secs(90);

/// The most retries of a failed call. Key: `max_retries`, which can only lower this number. The number of retries of a
/// rate-limited call is limited only if the key is set.
pub const MAX_RETRIES: u32 = 4;
/// The limit after failures where retrying is slow or rarely helps: no connection, a timeout, an empty reply.
pub const MAX_SLOW_RETRIES: u32 = 2;
/// The longest random wait before the first retry; doubles with each further retry. Key: `retry_base_ms`.
pub const RETRY_BASE: Duration = Duration::from_millis(500);
pub const RETRY_CAP: Duration = Duration::from_secs(20);
/// How long a call waits for rate limits in total. Key: `rate_limit_wait_seconds`.
pub const RATE_LIMIT_WAIT: Duration = Duration::from_mins(5);
/// If a provider requests a longer wait after a failure other than a rate limit, the call fails at once.
pub const RETRY_AFTER_CAP: Duration = Duration::from_mins(1);

/// The maximum size in bytes of one server-sent event, and of a reply that is not streamed. The largest allowed tool
/// arguments fit even if every byte needs a backslash.
pub const EVENT_BYTES: usize = 8 << 20;
/// The maximum size in bytes of the text of one reply, and of its reasoning. The longest model outputs today are
/// about 1 MiB.
pub const TEXT_BYTES: usize = 4 << 20;
/// The maximum total size in bytes of the arguments, names and ids of all tool calls of one reply.
pub const ARGUMENT_BYTES: usize = 2 << 20;
pub const TOOL_CALLS: usize = 128;
/// A larger body of an error response is ignored.
pub const ERROR_BODY_BYTES: usize = 64 << 10;
pub const PROVIDER_MESSAGE_CHARS: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CallLimits {
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    pub(crate) whole: Duration,
    pub(crate) max_retries: u32,
    pub(crate) rate_limit_retries: u32,
    pub(crate) rate_limit_wait: Duration,
    pub(crate) retry_base: Duration,
    /// Whether the config sets `first_byte_timeout_seconds` or `request_timeout_seconds`.
    pub(crate) sets_first_byte: bool,
    pub(crate) sets_whole: bool,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            connect: CONNECT,
            first_byte: FIRST_BYTE,
            idle: IDLE,
            whole: WHOLE_CALL,
            max_retries: MAX_RETRIES,
            rate_limit_retries: u32::MAX,
            rate_limit_wait: RATE_LIMIT_WAIT,
            retry_base: RETRY_BASE,
            sets_first_byte: false,
            sets_whole: false,
        }
    }
}

impl CallLimits {
    pub(crate) fn from_params(params: &Map<String, Value>) -> Result<Self, BuildError> {
        let standard = Self::default();
        let max_retries = whole_number(params, "max_retries")?
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX).min(MAX_RETRIES));
        Ok(Self {
            connect: seconds(params, "connect_timeout_seconds")?.unwrap_or(standard.connect),
            first_byte: seconds(params, "first_byte_timeout_seconds")?.unwrap_or(standard.first_byte),
            idle: seconds(params, "idle_timeout_seconds")?.unwrap_or(standard.idle),
            whole: seconds(params, "request_timeout_seconds")?.unwrap_or(standard.whole),
            max_retries: max_retries.unwrap_or(standard.max_retries),
            rate_limit_retries: max_retries.unwrap_or(standard.rate_limit_retries),
            rate_limit_wait: seconds(params, "rate_limit_wait_seconds")?.unwrap_or(standard.rate_limit_wait),
            retry_base: whole_number(params, "retry_base_ms")?
                .map_or(standard.retry_base, Duration::from_millis),
            sets_first_byte: seconds(params, "first_byte_timeout_seconds")?.is_some(),
            sets_whole: seconds(params, "request_timeout_seconds")?.is_some(),
        })
    }
}

impl CallLimits {
    /// A recognized local server may be silent for long before a reply begins. What the config sets is unchanged.
    pub(crate) fn for_local_server(self) -> Self {
        let first_byte = if self.sets_first_byte { self.first_byte } else { LOCAL_FIRST_BYTE };
        Self { first_byte, ..self }
    }
}

fn seconds(params: &Map<String, Value>, key: &'static str) -> Result<Option<Duration>, BuildError> {
    match params.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_f64()
            .filter(|n| *n > 0.0)
            .and_then(|n| Duration::try_from_secs_f64(n).ok())
            .map(Some)
            .ok_or(BuildError::BadParam { name: key, expected: "a number of seconds above 0" }),
    }
}

pub(crate) fn whole_number(
    params: &Map<String, Value>,
    key: &'static str,
) -> Result<Option<u64>, BuildError> {
    match params.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .map(Some)
            .ok_or(BuildError::BadParam { name: key, expected: "a whole number, 0 or more" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limits(value: &Value) -> Result<CallLimits, BuildError> {
        CallLimits::from_params(value.as_object().unwrap())
    }

    #[test]
    fn every_time_limit_can_be_set_per_backend() {
        let set = limits(&json!({
            "connect_timeout_seconds": 1, "first_byte_timeout_seconds": 0.5, "idle_timeout_seconds": 2,
            "request_timeout_seconds": 3, "max_retries": 1, "retry_base_ms": 7, "rate_limit_wait_seconds": 90,
        }));
        let expected = CallLimits {
            connect: Duration::from_secs(1),
            first_byte: Duration::from_millis(500),
            idle: Duration::from_secs(2),
            whole: Duration::from_secs(3),
            max_retries: 1,
            rate_limit_retries: 1,
            rate_limit_wait: Duration::from_secs(90),
            retry_base: Duration::from_millis(7),
            sets_first_byte: true,
            sets_whole: true,
        };
        assert_eq!(set, Ok(expected));
        assert_eq!(expected.for_local_server(), expected, "what the config sets stays");
        let local = CallLimits::default().for_local_server();
        assert_eq!((local.first_byte, local.idle), (LOCAL_FIRST_BYTE, IDLE));
    }

    #[test]
    fn a_config_cannot_ask_for_more_than_four_retries() {
        assert_eq!(limits(&json!({"max_retries": 100})).unwrap().max_retries, 4);
    }

    #[test]
    fn a_limit_that_is_not_a_positive_number_is_refused_by_name() {
        for bad in [json!(0), json!(-1), json!("10"), json!(1e300), json!(true)] {
            let error = limits(&json!({"idle_timeout_seconds": bad})).unwrap_err();
            assert!(error.to_string().contains("idle_timeout_seconds"), "{error}");
        }
    }
}
