//! Programs that are tasks of a workflow: what they report, on its way into the log and to those who watch.

use super::feed::Feed;
use super::passing::release;
use super::{DoerKey, Input, Mask};
use althing_protocol::{ProgramReport, Progress, ReportSink, TaskId};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// The end of what came, held back because it may be the beginning of a secret.
#[derive(Default)]
struct Held {
    raw: String,
    clean: String,
}

/// Where a program's reports go: content and questions into the session, output to those who watch.
pub(super) fn sink(
    key: DoerKey,
    task: TaskId,
    inbox: Sender<Input>,
    feed: Feed,
    mask: Arc<dyn Mask>,
) -> ReportSink {
    let held = Mutex::new(Held::default());
    Arc::new(move |report| match report {
        ProgramReport::Output { raw, clean } => {
            if !feed.is_watched() {
                return;
            }
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            let raw = release(&*mask, &mut held.raw, &String::from_utf8_lossy(&raw));
            let clean = release(&*mask, &mut held.clean, &clean);
            let task = task.clone();
            feed.pass(|after| Progress::Output { after, task, raw, clean });
        }
        ProgramReport::ScreenChanged => {
            let task = task.clone();
            feed.pass(|after| Progress::ScreenChanged { after, task });
        }
        report @ (ProgramReport::Item(_) | ProgramReport::Waiting(_) | ProgramReport::MovedOn) => {
            // The session may be gone already; then nobody waits for this.
            let _ = inbox.send(Input::Reported { key: key.clone(), report });
        }
    })
}
