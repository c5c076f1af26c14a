//! The fault table: which faults there are, at which moments each means something of its own, and what a good client
//! makes of it. A table test iterates [`FaultCase::all`].

use std::fmt;
use std::time::Duration;

use super::{BadArguments, Fault, FaultMoment, RetryAfter};

/// What a good client makes of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultExpectation {
    /// Not an error: the call succeeds at once with the whole reply, however often it happens.
    HarmlessVariation,
    /// The call ends in a typed error within its limit. If `retryable`, it is made again: success when the fault
    /// happened once, that error when it stays. If not, the error stands after one request.
    Fails {
        /// Whether another try may help.
        retryable: bool,
    },
    /// The wire did its part, but the content is of no use: no transport retry; the agent is told and asked again.
    /// Good when it happened once; when it stays, that agent is out and the others go on.
    Recovers,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FaultCase {
    /// What goes wrong.
    pub fault: Fault,
    /// When.
    pub moment: FaultMoment,
}

impl FaultCase {
    /// Every fault at every moment where it means something of its own.
    pub fn all() -> impl Iterator<Item = Self> {
        Fault::ALL.iter().flat_map(|&fault| fault.moments().iter().map(move |&moment| Self { fault, moment }))
    }

    /// What a good client makes of it.
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
    /// How long [`Fault::Refused`] keeps the port shut. Longer than an eager first retry, shorter than a patient one.
    pub const REFUSED_FOR: Duration = Duration::from_millis(150);

    /// Every fault, with its ordinary numbers.
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

    /// The moments at which this fault means something of its own. Faults of the whole reply are listed once.
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

    /// What a good client makes of this fault at this moment.
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
            // A page instead of a stream is a wrong address; page text inside a stream is only a broken stream.
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
