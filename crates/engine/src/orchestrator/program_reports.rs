//! Routes the reports of a workflow's programs: output and screen changes go to the event feed, everything else to the
//! session.

use super::feed::Feed;
use super::progress::mask_chunk;
use super::{EffectId, EventMasker, Input};
use althing_protocol::{ProgramReport, Progress, ReportSink, TaskId};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// The end of the output so far, held back because it may be the beginning of a secret.
#[derive(Default)]
struct MaskBuffers {
    raw: String,
    clean: String,
}

pub(super) fn report_sink(
    id: EffectId,
    task: TaskId,
    inbox: Sender<Input>,
    feed: Feed,
    mask: Arc<dyn EventMasker>,
) -> ReportSink {
    let held_back = Mutex::new(MaskBuffers::default());
    Arc::new(move |report| match report {
        ProgramReport::Output { raw, clean } => {
            if !feed.is_watched() {
                return;
            }
            let mut held_back = held_back.lock().unwrap_or_else(PoisonError::into_inner);
            let raw = mask_chunk(&*mask, &mut held_back.raw, &String::from_utf8_lossy(&raw));
            let clean = mask_chunk(&*mask, &mut held_back.clean, &clean);
            let task = task.clone();
            feed.publish_progress(|after| Progress::Output { after, task, raw, clean });
        }
        ProgramReport::ScreenChanged => {
            let task = task.clone();
            feed.publish_progress(|after| Progress::ScreenChanged { after, task });
        }
        report @ (ProgramReport::Item(_)
        | ProgramReport::Waiting(_)
        | ProgramReport::MovedOn
        | ProgramReport::Notice(_)) => {
            // Sending fails if the session has ended; then nobody waits for the report.
            let _ = inbox.send(Input::ProgramReported { id: id.clone(), report });
        }
    })
}
