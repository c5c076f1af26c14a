//! Newtype ids, so that a task can never be passed where a session is meant.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        // Arc: ids are copied into every event and message; the text itself never changes.
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text as an id.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
    };
}

id! {
    /// One session: a directory under the state directory, holding one event log.
    SessionId
}
id! {
    /// A node of the session's task tree: `r1` for the first run, `r1.a2` for the work of its second agent.
    TaskId
}
id! {
    /// An agent as the user named it in the config.
    AgentId
}
id! {
    /// A question that is open to a person.
    InteractionId
}

/// What the id of a planning run is followed by in the id of the run that carries out its plan.
const EXECUTION: &str = ".execution";

impl TaskId {
    /// The id of the `n`th run of a session (counted from 1).
    pub fn run(n: u32) -> Self {
        Self::new(format!("r{n}"))
    }

    /// The id of a session's workflow.
    pub fn workflow() -> Self {
        Self::new("w1")
    }

    /// The id of a session's conversation.
    pub fn chat() -> Self {
        Self::new("c1")
    }

    /// Whether another task is this one or below it.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// The id of the run that carries out the plan of this planning run.
    pub fn execution(&self) -> Self {
        Self::new(format!("{self}{EXECUTION}"))
    }

    /// Whether it is part of another task: an agent's work, a subagent's run, a workflow's task. A run of the session or
    /// of a conversation is not, and neither is the run that carries out its plan.
    pub fn is_subtask(&self) -> bool {
        self.0.strip_suffix(EXECUTION).unwrap_or(&self.0).contains('.')
    }

    /// The id of a workflow's task, by the user's name for it.
    pub fn stage_task(&self, name: &str) -> Self {
        Self::new(format!("{self}.{name}"))
    }

    /// The id of the work of the agent with ordinal `n` (counted from 1) within this run.
    pub fn work(&self, n: u32) -> Self {
        Self::new(format!("{self}.a{n}"))
    }
}
