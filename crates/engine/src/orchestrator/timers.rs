//! The running timers of a session. A timer starts when a decider first wants it, and is dropped when the decider no
//! longer does.

use althing_protocol::{Millis, TaskId, Timer, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<(TaskId, Timer), Timestamp>,
}

impl Timers {
    pub(super) fn set_wanted(&mut self, task: &TaskId, wanted: Vec<(Timer, Millis)>, now: Timestamp) {
        let still: BTreeSet<&Timer> = wanted.iter().map(|(timer, _)| timer).collect();
        self.due.retain(|(owner, timer), _| owner != task || still.contains(timer));
        for (timer, after) in wanted {
            self.due.entry((task.clone(), timer)).or_insert(Timestamp(now.0 + after.0));
        }
    }

    pub(super) fn next_in(&self, now: Timestamp) -> Option<Duration> {
        self.due.values().min().map(|due| due.since(now).duration())
    }

    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<(TaskId, Timer)> {
        let passed: Vec<_> =
            self.due.iter().filter(|(_, due)| **due <= now).map(|(key, _)| key.clone()).collect();
        for key in &passed {
            self.due.remove(key);
        }
        passed
    }
}
