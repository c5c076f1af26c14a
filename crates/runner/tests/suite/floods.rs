//! A program that floods its output does not starve other tasks: while another pipe is ready, the flood is read at
//! most a few times.

use super::programs::{AGENT, TaskFixture};
use super::support::{AgentFixture, run, sandbox};
use althing_protocol::{MaskStream, OutputMasking, ProgramReport, Programs, ReportSink};
use althing_runner::SandboxKind;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

/// The size of a flood in MiB: more than the pipes can hold.
const MEBIBYTES: usize = 64;
/// How often the flood may be read while another pipe is ready and its reader waits. One or two reads are usual;
/// unfairness would show as hundreds.
const FAIR: usize = 8;

#[derive(Clone, Debug, Default)]
struct Reads {
    all: Arc<AtomicUsize>,
    worst: Arc<AtomicUsize>,
}

impl Reads {
    fn count(&self) {
        self.all.fetch_add(1, Ordering::Relaxed);
    }

    fn sink(&self) -> ReportSink {
        let reads = self.clone();
        Arc::new(move |report| {
            if matches!(report, ProgramReport::Output { .. }) {
                reads.count();
            }
        })
    }

    fn neighbor(&self) -> JoinHandle<()> {
        let reads = self.clone();
        let (from, mut to) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&from, true).unwrap();
        let from = pipe::Receiver::from_owned_fd(from.into()).unwrap();
        tokio::spawn(async move {
            loop {
                let before = reads.all.load(Ordering::Relaxed);
                to.write_all(b"x").unwrap();
                from.readable().await.unwrap();
                let waited = reads.all.load(Ordering::Relaxed) - before;
                reads.worst.fetch_max(waited, Ordering::Relaxed);
                while from.try_read(&mut [0; 8]).is_ok() {}
            }
        })
    }

    fn were_fair(&self, what: &str) {
        let (all, worst) = (self.all.load(Ordering::Relaxed), self.worst.load(Ordering::Relaxed));
        println!("{what}: {all} reads, at most {worst} while something else was ready");
        assert!(all > 10 * FAIR, "{what}: this was no flood: {all} reads");
        assert!(worst <= FAIR, "{what}: {worst} of {all} reads while something else was ready");
    }
}

fn flooding_gemini(to: &str) -> String {
    format!(
        r#"#!/bin/sh
read -r x; echo '{{"jsonrpc":"2.0","id":1,"result":{{}}}}'
read -r x; echo '{{"jsonrpc":"2.0","id":2,"result":{{"sessionId":"s-1"}}}}'
read -r prompt
echo 'flood {MEBIBYTES}' | {AGENT} {to}
echo
echo '{{"id":3,"result":{{"stopReason":"end_turn"}}}}'
cat > /dev/null
"#
    )
}

#[tokio::test]
async fn a_flood_in_a_structured_session_does_not_starve_other_programs() {
    for (what, to) in [("standard output", ""), ("standard error", ">&2")] {
        let fixture = TaskFixture::new();
        let program = fixture.path("work/gemini");
        std::fs::write(&program, flooding_gemini(to)).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut job = fixture.agent("gemini", "go");
        job.spec.approvals = true;
        let path = format!("{}:/usr/bin:/bin", fixture.path("work").display());
        job.spec.env.insert("PATH".to_owned(), path);
        let reads = Reads::default();
        let neighbor = reads.neighbor();
        let end = fixture.runner.run(&job, reads.sink()).await;
        neighbor.abort();
        assert!(end.ok, "{end:?}");
        reads.were_fair(&format!("a structured session that floods its {what}"));
    }
}

#[tokio::test]
async fn a_flood_of_a_headless_program_does_not_starve_other_programs() {
    for (what, redirect) in [("standard output", ""), ("standard error", ">&2")] {
        let fixture = TaskFixture::new();
        let shell = format!("{AGENT} {redirect}");
        let job = fixture.command("t", &["sh", "-c", &shell], &format!("flood {MEBIBYTES}"));
        let reads = Reads::default();
        let neighbor = reads.neighbor();
        let end = fixture.runner.run(&job, reads.sink()).await;
        neighbor.abort();
        assert!(end.ok, "{end:?}");
        reads.were_fair(&format!("a headless program that floods its {what}"));
    }
}

/// Masks nothing, counts the reads, and is slower than the flooding program.
#[derive(Debug)]
struct CountingMasking(Reads);

#[derive(Debug)]
struct CountingStream(Reads);

impl OutputMasking for CountingMasking {
    fn stream(&self) -> Box<dyn MaskStream> {
        Box::new(CountingStream(self.0.clone()))
    }
}

impl MaskStream for CountingStream {
    fn push<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8] {
        self.0.count();
        for _ in 0..4 {
            std::hint::black_box(bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
        }
        bytes
    }

    fn finish(&mut self) -> &[u8] {
        &[]
    }
}

#[tokio::test]
async fn a_flood_of_a_command_does_not_starve_other_programs() {
    let Some(unconfined) = sandbox(SandboxKind::Unconfined).await else { return };
    let reads = Reads::default();
    let output_masking: Arc<dyn OutputMasking> = Arc::new(CountingMasking(reads.clone()));
    let agent_files = AgentFixture::new();
    let host = agent_files.host_with(unconfined, |policy| policy.output_masking = Some(output_masking));
    let neighbor = reads.neighbor();
    let outcome = run(&host, &format!("echo 'flood {MEBIBYTES}' | {AGENT}")).await;
    neighbor.abort();
    assert!(!outcome.is_error, "{}", outcome.content);
    reads.were_fair("a command that floods its output");
}
