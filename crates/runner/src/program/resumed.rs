//! What a task's program is told when an interrupted session is resumed, and what it had finished before. A program
//! that resumes its own conversation knows its task; the same prompt again would make it do the work twice.

use super::conversation_id::{is_conversation_id, notice_of_refused};
use super::pipes::FinishedRun;
use super::prepare::{PreparedProgram, StartRequest};
use super::{ProgramRunner, RAW_OUTPUT, TaskReporter};
use crate::adapter::{Exit, OutputParser, ProgramOutcome, RunningProgram, Stream};
use crate::kernel::open_files_below;
use crate::lines::{LineSplitter, OutputLine};
use crate::structured::{ProtocolStep, StructuredProtocol};
use crate::terminal::FindConversation;
use althing_protocol::{Grant, ProgramEnd, ProgramJob, ProgramReport, ReportSink, TurnProgress};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CONTINUATION: &str = "You were cut off before you had finished. Continue where you stopped, and do \
                                       not repeat what is already done.";

const MAX_OUTPUT_BYTES: u64 = 256 << 20;

/// The job with the prompt to send now: the task's prompt in a new conversation, [`CONTINUATION`] in a turn that was
/// cut off, and nothing after a finished turn.
pub(super) fn with_prompt_to_send(job: &ProgramJob) -> ProgramJob {
    let mut job = job.clone();
    match job.resume.as_ref().map(|resumed| resumed.turn) {
        None | Some(TurnProgress::NotBegun) => {}
        // A task without a prompt is a program that a person uses.
        Some(TurnProgress::Begun) if job.spec.prompt.trim().is_empty() => {}
        Some(TurnProgress::Begun) => CONTINUATION.clone_into(&mut job.spec.prompt),
        Some(TurnProgress::Finished) => job.spec.prompt.clear(),
    }
    job
}

/// The job, which starts a new conversation if the id of the conversation to resume is not accepted.
pub(super) fn without_refused_conversation(job: &ProgramJob, reports: &ReportSink) -> ProgramJob {
    let mut job = job.clone();
    if let Some(resumed) = job.resume.take_if(|resumed| !is_conversation_id(&resumed.id)) {
        reports(ProgramReport::Notice(notice_of_refused(&job.spec.adapter, &resumed.id)));
    }
    job
}

pub(super) fn resumed_id(job: &ProgramJob) -> Option<&str> {
    job.resume.as_ref().map(|resumed| resumed.id.as_str())
}

pub(super) fn find_conversation(start: &PreparedProgram) -> FindConversation {
    let adapter = Arc::clone(&start.adapter);
    let command = start.confined.guarded_command.clone();
    Arc::new(move |guard| {
        let lookup = |name: &str| command.variable(name);
        let open_files = || open_files_below(guard);
        adapter.running_conversation(&RunningProgram { open_files: &open_files, env: &lookup })
    })
}

impl ProgramRunner {
    /// The end of the interrupted headless attempt that `job` continues, if its stored output shows that the program
    /// finished its turn. Then nothing has to be started.
    pub(super) fn end_of_finished_turn(
        &self,
        job: &ProgramJob,
        grant: &Grant,
        reports: &ReportSink,
    ) -> Option<ProgramEnd> {
        let resumed = job.resume.as_ref().filter(|resumed| resumed.turn != TurnProgress::NotBegun)?;
        // The output is that of the last start: each start removes the output of the start before.
        let path = Path::new(&job.dir).join(RAW_OUTPUT);
        let output = althing_disk::read_regular(&path, MAX_OUTPUT_BYTES).ok()?;
        let mut start =
            self.starter.prepare_to_read(&StartRequest::of(job, grant, Some(&resumed.id))).ok()?;
        let outcome = match start.structured_protocol.take() {
            Some(protocol) => replay_protocol(protocol, &output),
            None => replay_output(start.adapter.parser(), &output),
        };
        let outcome = outcome.filter(|outcome| outcome.ok)?;
        let done = FinishedRun { exit: SUCCESS, outcome, idle: false };
        let reporter = TaskReporter::new("", "", Some(&resumed.id), reports);
        Some(self.end(&start, done, Duration::ZERO, reporter, &path))
    }
}

fn replay_output(mut parser: Box<dyn OutputParser>, output: &[u8]) -> Option<ProgramOutcome> {
    parser.output(Stream::Out, output, "", &mut |_| ());
    parser.has_ended_turn().then(|| parser.end(SUCCESS, &mut |_| ()))
}

fn replay_protocol(mut protocol: Box<dyn StructuredProtocol>, output: &[u8]) -> Option<ProgramOutcome> {
    let (mut lines, mut is_over) = (LineSplitter::default(), false);
    protocol.begin();
    lines.push(output, &mut |line| {
        if let OutputLine::Whole(line) = line
            && let Ok(message) = serde_json::from_slice(line)
        {
            let mut step = ProtocolStep::default();
            protocol.receive(&message, &mut step);
            is_over |= step.is_over;
        }
    });
    is_over.then(|| protocol.end(SUCCESS, ""))
}

const SUCCESS: Exit = Exit { code: Some(0), signal: None };
