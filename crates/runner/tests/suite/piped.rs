//! Programs under a guard whose pipes the caller holds.

use super::support::{HELPER, processes_with, unique_seconds, wait_until};
use althing_runner::{GuardLauncher, PipedChild, PipedProgram};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn script(text: &str) -> PipedProgram {
    PipedProgram {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), text.to_owned()],
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        cwd: PathBuf::from("/"),
        grace: Duration::from_secs(60),
        protection: None,
    }
}

async fn start(program: PipedProgram) -> std::io::Result<PipedChild> {
    GuardLauncher::of(HELPER.into()).start_piped(program).await
}

#[tokio::test]
async fn a_program_reads_its_input_and_its_output_and_exit_code_are_returned() {
    let mut program = script("read line; echo \"out $line $PWD\"; printf %s \"$ODD\" >&2; exit 3");
    let odd = OsString::from_vec(vec![b'a', 0xff, b'z']);
    program.env.push(("ODD".into(), odd.clone()));
    program.cwd = PathBuf::from("/usr");
    let mut piped = start(program).await.unwrap();
    piped.stdin.write_all(b"hello\n").await.unwrap();
    let (mut out, mut err) = (String::new(), Vec::new());
    piped.stdout.read_to_string(&mut out).await.unwrap();
    piped.stderr.read_to_end(&mut err).await.unwrap();
    assert_eq!((out.as_str(), err), ("out hello /usr\n", odd.into_vec()));
    for _ in 0..2 {
        assert_eq!(piped.process.exited().await.unwrap(), (Some(3), None));
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_reported_as_not_found() {
    let mut program = script("true");
    program.program = "no-such-program".to_owned();
    assert_eq!(start(program).await.unwrap_err().kind(), ErrorKind::NotFound);
    let mut program = script("true");
    program.program = "/etc/passwd".to_owned();
    assert_ne!(start(program).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_terminated_program_may_choose_its_exit_code() {
    let mut piped =
        start(script("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")).await.unwrap();
    let mut ready = [0; 6];
    piped.stdout.read_exact(&mut ready).await.unwrap();
    piped.process.terminate();
    assert_eq!(piped.process.exited().await.unwrap(), (Some(7), None));
}

#[tokio::test]
async fn a_killed_program_reports_the_signal_and_leaves_no_detached_child() {
    let mark = unique_seconds();
    let mut piped =
        start(script(&format!("trap '' TERM; setsid sleep {mark} & sleep {mark}"))).await.unwrap();
    let alive = || processes_with(&format!("sleep {mark}"));
    wait_until(alive, |pids| pids.len() >= 2);
    piped.process.kill();
    assert_eq!(piped.process.exited().await.unwrap(), (None, Some(9)));
    wait_until(alive, Vec::is_empty);
}

#[tokio::test]
async fn dropping_a_program_ends_everything_it_started() {
    let mark = unique_seconds();
    let piped = start(script(&format!("trap '' TERM; setsid sleep {mark} & sleep {mark}"))).await.unwrap();
    let alive = || processes_with(&format!("sleep {mark}"));
    wait_until(alive, |pids| pids.len() >= 2);
    drop(piped);
    wait_until(alive, Vec::is_empty);
}
