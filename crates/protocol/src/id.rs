//! Newtype ids, so that a task id cannot be passed where a session id is expected.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        // An `Arc`, because ids are cloned into every event and message.
        pub struct $name(Arc<str>);

        impl $name {
            /// Makes an id from its text.
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
    /// The id of a session: the name of its directory in the state directory.
    SessionId
}
id! {
    /// The id of a node of the session's task tree: `r1` is the first run, `r1.a2` the work of its second member.
    TaskId
}
id! {
    /// The id of an agent: its name in the config. (The chat agent, which has no name there, gets a generated id.)
    AgentId
}
id! {
    /// The id of a question to a person.
    InteractionId
}

/// Appended to the id of a planning run, gives the id of the run that executes its plan.
const EXECUTION: &str = ".execution";

/// A number follows.
const RETRY: &str = ".retry";

impl TaskId {
    /// The id of the `n`th run of a session, counted from 1.
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

    /// Whether `other` is this task or below it: a run covers its members' work, its subagent runs, and the run that
    /// executes its plan.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// The id of the run that executes the plan of this planning run.
    pub fn execution(&self) -> Self {
        Self::new(format!("{self}{EXECUTION}"))
    }

    /// Whether the task is a member's work, a subagent run or a workflow's task. False for other runs, including those
    /// that execute a plan.
    pub fn is_subtask(&self) -> bool {
        self.0.strip_suffix(EXECUTION).unwrap_or(&self.0).contains('.')
    }

    /// The id of the `n`th try of this task of a workflow, for tries after the first.
    pub fn retry(&self, n: u32) -> Self {
        Self::new(format!("{self}{RETRY}{n}"))
    }

    /// The id of the first try of a workflow's task.
    pub fn without_retry(&self) -> Self {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match self.0.rsplit_once(RETRY) {
            Some((first, n)) if is_number(n) => Self::new(first),
            _ => self.clone(),
        }
    }

    /// The id of a task of this workflow, from the task's name in the workflow file.
    pub fn stage_task(&self, name: &str) -> Self {
        Self::new(format!("{self}.{name}"))
    }

    /// The id of the work of the `n`th member of this run, counted from 1.
    pub fn work(&self, n: u32) -> Self {
        Self::new(format!("{self}.a{n}"))
    }
}
