//! How fast it is, printed and not judged: `ALTHING_MEASURE=1 cargo test --release -p althing-storage measured -- --nocapture`.

use super::kept_work::let_time_pass;
use super::yard::{Yard, context, temp, write};
use crate::{ContextSnapshot, Workspace};
use althing_protocol::AnswerLabel;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn wanted() -> bool {
    std::env::var("ALTHING_MEASURE").is_ok()
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let value = work();
    (start.elapsed(), value)
}

fn fill(base: &Path, files: usize) {
    for n in 0..files {
        let dir = base.join(format!("d{}/e{}", n % 10, n % 100));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{n}.txt")), format!("{n}\n").repeat(200)).unwrap();
    }
}

#[test]
fn keeping_ten_thousand_files_beside_cp() {
    if !wanted() {
        return;
    }
    let dir = temp();
    let run = dir.path().join("run");
    let place = Workspace::open(&run, &run.join("workspaces/me")).unwrap();
    fill(place.path(), 10_000);
    let_time_pass(dir.path());
    rustix::fs::sync();
    let best = |times: &mut dyn FnMut(u32) -> Duration| (1..=5).map(times).min().unwrap();
    let label = |agent, nth| AnswerLabel { agent, nth };
    let cp = best(&mut |n| {
        let copy = dir.path().join(format!("copy{n}"));
        timed(|| Command::new("cp").arg("-a").arg(place.path()).arg(&copy).status().unwrap()).0
    });
    let first = best(&mut |n| timed(|| place.keep(label(n, 1)).unwrap()).0);
    let unchanged = best(&mut |n| timed(|| place.keep(label(1, n + 1)).unwrap()).0);
    let one = best(&mut |n| {
        write(&place.path().join("d0/e0/0.txt"), &format!("changed {n}"));
        let_time_pass(dir.path());
        let (time, kept) = timed(|| place.keep(label(2, n + 1)).unwrap());
        assert_eq!(kept.copied, 1);
        time
    });
    let other = Workspace::open(&run, &run.join("workspaces/other")).unwrap();
    let show = best(&mut |n| timed(|| other.show(&[label(2, n + 1)]).unwrap()).0);
    let times = |time: Duration| time.as_secs_f64() / cp.as_secs_f64();
    println!(
        "best of five: cp -a {cp:?}; keep {first:?} ({:.2}x); unchanged {unchanged:?} ({:.3}x); one changed {one:?} \
         ({:.2}x); show {show:?}",
        times(first),
        times(unchanged),
        times(one)
    );
}

#[test]
fn tracking_a_hundred_thousand_files() {
    if !wanted() {
        return;
    }
    let dir = temp();
    fill(dir.path(), 100_000);
    let_time_pass(dir.path());
    for _ in 0..3 {
        let (take, taken) = timed(|| ContextSnapshot::take(&[context(dir.path(), true, &[])], None).unwrap());
        let (compare, changes) = timed(|| taken.compare().unwrap());
        let (store, bytes) = timed(|| crate::manifest::seal(&taken).unwrap());
        assert!(changes.is_empty());
        println!("take {take:?}; compare {compare:?}; store {store:?} ({} kB)", bytes.len() / 1000);
    }
}

#[test]
fn file_tools_beside_the_bare_calls() {
    if !wanted() {
        return;
    }
    let yard = Yard::new();
    let deep = yard.workspace().join("a/b/c/d.txt");
    write(&deep, "text\n");
    // The median: others use the disk too.
    let each = |work: &mut dyn FnMut()| {
        let mut times: Vec<Duration> = (0..5000).map(|_| timed(&mut *work).0).collect();
        times.sort();
        times[times.len() / 2]
    };
    let bare_read = each(&mut || drop(fs::read(&deep).unwrap()));
    let read = each(&mut || drop(yard.read("a/b/c/d.txt").unwrap()));
    let other = yard.workspace().join("a/b/c/e.txt");
    let beside = yard.workspace().join("a/b/c/e.tmp");
    let bare_write = each(&mut || {
        fs::write(&beside, "text\n").unwrap();
        fs::rename(&beside, &other).unwrap();
    });
    let put = each(&mut || drop(yard.write("a/b/c/e.txt", "text\n").unwrap()));
    let bare_list = each(&mut || assert_eq!(fs::read_dir(yard.workspace()).unwrap().count(), 3));
    let list = each(&mut || drop(yard.call("list_directory", &json!({})).unwrap()));
    println!(
        "read {read:?} (bare {bare_read:?}); write {put:?} (bare {bare_write:?}); list {list:?} (bare {bare_list:?})"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let call = althing_protocol::ToolCall {
        id: "c".into(),
        name: "read_file".into(),
        arguments: json!({"path": "a/b/c/d.txt"}).to_string(),
    };
    let whole = each(&mut || {
        use althing_protocol::{ContextAccess, ToolHost};
        let outcome = runtime.block_on(yard.host.call(&call, ContextAccess::ReadOnly));
        assert!(!outcome.is_error);
    });
    println!("read through the host, with the hop to another thread {whole:?}");
}
