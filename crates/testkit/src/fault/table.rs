//! The fault table: all faults, the moments at which each is injected, and the expected behavior of the client.

use std::fmt;
use std::time::Duration;

use super::{BadArguments, Fault, FaultMoment, RetryAfter};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultExpectation {
    /// No error: the call succeeds at once with the whole reply, however often the fault happens.
    HarmlessVariation,
    /// A request with the fault ends in a typed error within its time limit. If `retryable`, the client repeats the
    /// request: the call succeeds if the fault happened once, and fails with that error if it persists. Otherwise the
    /// call fails after one request. (After [`Fault::EndlessStream`], a client may fail after one request in any case.)
    Fails { retryable: bool },
    /// The transport worked, but the content is useless. The transport does not retry (except that it may after
    /// [`Fault::EmptyReply`]); the agent gets an error message and is asked again. If the fault persists, that agent
    /// drops out and the others continue.
    Recovers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FaultCase {
    pub fault: Fault,
    pub moment: FaultMoment,
}

impl FaultCase {
    pub fn all() -> impl Iterator<Item = Self> {
        Fault::ALL.iter().flat_map(|&fault| fault.moments().iter().map(move |&moment| Self { fault, moment }))
    }

    pub fn expectation(self) -> FaultExpectation {
        self.fault.expectation(self.moment)
    }
}

impl fmt::Display for FaultCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.fault, self.moment)
    }
}

impl Fault {
    /// How long [`Fault::Refused`] keeps the port closed: long enough that a client that retries at once is refused
    /// again, and short enough that a client that waits before its retry is not.
    pub const REFUSED_FOR: Duration = Duration::from_millis(150);

    pub const ALL: &'static [Self] = &[
        Self::RateLimited(RetryAfter::Seconds(1)),
        Self::RateLimited(RetryAfter::Date(1)),
        Self::Status(500),
        Self::Status(502),
        Self::Status(503),
        Self::Status(529),
        Self::Status(401),
        Self::Status(404),
        Self::Refused,
        Self::Reset,
        Self::HeaderStall,
        Self::IdleStall,
        Self::Dribble(Duration::from_secs(1)),
        Self::CutEnded,
        Self::CutAbrupt,
        Self::MalformedJson,
        Self::Utf8Split,
        Self::OddSplits(7),
        Self::BadArguments(BadArguments::NotJson),
        Self::BadArguments(BadArguments::WrongType),
        Self::BadArguments(BadArguments::UnknownTool),
        Self::BadArguments(BadArguments::Huge),
        Self::BadArguments(BadArguments::MissingField),
        Self::EmptyReply,
        Self::RepeatedIds,
        Self::EndlessStream,
        Self::WrongContentType,
        Self::ErrorInStream,
        Self::MissingUsage,
        Self::CrlfLines,
        Self::Comments,
    ];

    /// The moments at which tests inject this fault. A moment is left out if the fault would have the same effect as at
    /// another moment, or as another fault.
    pub fn moments(self) -> &'static [FaultMoment] {
        match self {
            Self::RateLimited(_)
            | Self::Status(_)
            | Self::Refused
            | Self::Reset
            | Self::IdleStall
            | Self::Dribble(_)
            | Self::CutEnded
            | Self::CutAbrupt
            | Self::MalformedJson
            | Self::EndlessStream
            | Self::ErrorInStream
            | Self::Comments => &FaultMoment::ALL,
            Self::HeaderStall | Self::WrongContentType => &[FaultMoment::BeforeHeaders],
            Self::Utf8Split
            | Self::OddSplits(_)
            | Self::BadArguments(_)
            | Self::EmptyReply
            | Self::RepeatedIds
            | Self::MissingUsage
            | Self::CrlfLines => &[FaultMoment::MidStream],
        }
    }

    pub fn expectation(self, moment: FaultMoment) -> FaultExpectation {
        match self {
            Self::RateLimited(_)
            | Self::Refused
            | Self::Reset
            | Self::HeaderStall
            | Self::IdleStall
            | Self::Dribble(_)
            | Self::CutEnded
            | Self::CutAbrupt
            | Self::MalformedJson
            | Self::EndlessStream
            | Self::ErrorInStream => FaultExpectation::Fails { retryable: true },
            Self::Status(code) => {
                FaultExpectation::Fails { retryable: code == 408 || code == 429 || code >= 500 }
            }
            // A page instead of a stream means a wrong URL. A page inside a stream is only a broken stream.
            Self::WrongContentType => {
                FaultExpectation::Fails { retryable: moment != FaultMoment::BeforeHeaders }
            }
            Self::BadArguments(_) | Self::EmptyReply => FaultExpectation::Recovers,
            Self::Utf8Split
            | Self::OddSplits(_)
            | Self::RepeatedIds
            | Self::MissingUsage
            | Self::CrlfLines
            | Self::Comments => FaultExpectation::HarmlessVariation,
        }
    }
}
