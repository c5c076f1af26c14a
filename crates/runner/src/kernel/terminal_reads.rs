//! Finds out from `/proc` which program waits for input from a terminal. Linux shows in which system call a thread
//! sleeps if its process is a descendant of this one and runs as the same user, also in other namespaces (bubblewrap).
//! For programs with other rights (`sudo`, `passwd`), it does not.

use super::{TerminalRead, TerminalReader};
use rustix::process::Pid;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

const MAX_THREADS: usize = 4_000;
const MAX_DESCRIPTORS: u64 = 4_096;
/// The device number of `/dev/tty`, which stands for the controlling terminal of the process that opened it.
const DEV_TTY: u64 = 5 << 8;
/// The value of both `POLLIN` and `EPOLLIN`.
const INPUT: u32 = 1;

#[cfg(target_arch = "x86_64")]
const POLLS: [libc::c_long; 2] = [libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const POLLS: [libc::c_long; 1] = [libc::SYS_ppoll];
#[cfg(target_arch = "x86_64")]
const SELECTS: [libc::c_long; 2] = [libc::SYS_select, libc::SYS_pselect6];
#[cfg(not(target_arch = "x86_64"))]
const SELECTS: [libc::c_long; 1] = [libc::SYS_pselect6];
#[cfg(target_arch = "x86_64")]
const EPOLLS: [libc::c_long; 3] = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
#[cfg(not(target_arch = "x86_64"))]
const EPOLLS: [libc::c_long; 2] = [libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
const READS: [libc::c_long; 2] = [libc::SYS_read, libc::SYS_readv];

pub(crate) fn terminal_id(path: &std::path::Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

pub(crate) fn terminal_read(group: Pid, terminal: (u64, u64)) -> TerminalRead {
    let group = group.as_raw_nonzero().get();
    let (mut polling, mut unseen, mut threads) = (None, false, 0);
    for pid in numbers("/proc") {
        if group_of(pid) != Some(group) {
            continue;
        }
        for thread in numbers(&format!("/proc/{pid}/task")) {
            threads += 1;
            if threads > MAX_THREADS {
                return TerminalRead::None;
            }
            match fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")) {
                Ok(call) => match wait(pid, &call, terminal) {
                    Some(Wait::Read) => return TerminalRead::By(reader(pid, thread, true)),
                    Some(Wait::Poll) => polling = polling.or(Some((pid, thread))),
                    None => {}
                },
                // Reading also fails for a thread that has ended, which hides nothing. Something is hidden if the
                // kernel refuses to show this thread's system call, or shows none at all because it lacks this file.
                Err(error) => unseen |= error.kind() == io::ErrorKind::PermissionDenied || !shows_calls(),
            }
        }
    }
    match polling {
        Some((pid, thread)) => TerminalRead::By(reader(pid, thread, false)),
        None if unseen => TerminalRead::Unseen,
        None => TerminalRead::None,
    }
}

fn shows_calls() -> bool {
    fs::metadata("/proc/thread-self/syscall").is_ok()
}

enum Wait {
    Read,
    Poll,
}

fn wait(pid: i32, call: &str, terminal: (u64, u64)) -> Option<Wait> {
    let mut words = call.split_ascii_whitespace();
    // The first word is `running`, or -1 if the thread is not in a system call.
    let number: libc::c_long = words.next()?.parse().ok()?;
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let mut argument = || words.next().and_then(hex);
    let (first, second) = (argument()?, argument()?);
    let is_terminal = |descriptor: u64| is_terminal(pid, descriptor, terminal);
    if READS.contains(&number) {
        return is_terminal(first).then_some(Wait::Read);
    }
    let descriptors = if POLLS.contains(&number) {
        polled(pid, first, second)
    } else if SELECTS.contains(&number) {
        selected(pid, first, second)
    } else if EPOLLS.contains(&number) {
        watched(pid, first)
    } else {
        return None;
    };
    descriptors.unwrap_or_default().into_iter().any(is_terminal).then_some(Wait::Poll)
}

fn polled(pid: i32, address: u64, count: u64) -> Option<Vec<u64>> {
    let bytes = memory(pid, address, count.min(MAX_DESCRIPTORS) * 8)?;
    let (entries, _) = bytes.as_chunks::<8>();
    let wanted = entries.iter().filter_map(|[a, b, c, d, low, high, ..]| {
        let events = u32::from(u16::from_ne_bytes([*low, *high]));
        let descriptor = i32::from_ne_bytes([*a, *b, *c, *d]);
        u64::try_from(descriptor).ok().filter(|_| events & INPUT != 0)
    });
    Some(wanted.collect())
}

fn selected(pid: i32, count: u64, address: u64) -> Option<Vec<u64>> {
    if address == 0 {
        return None;
    }
    let count = count.min(MAX_DESCRIPTORS);
    let bytes = memory(pid, address, count.div_ceil(64) * 8)?;
    let (words, _) = bytes.as_chunks::<8>();
    let is_set = |descriptor: &u64| {
        let word = words.get((descriptor / 64) as usize).map_or(0, |word| u64::from_ne_bytes(*word));
        word & (1 << (descriptor % 64)) != 0
    };
    Some((0..count).filter(is_set).collect())
}

fn watched(pid: i32, epoll: u64) -> Option<Vec<u64>> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{epoll}")).ok()?;
    let lines = info.lines().filter_map(|line| line.strip_prefix("tfd:"));
    let wanted = lines.filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let descriptor = words.next()?.parse().ok()?;
        let events = words.find(|word| *word != "events:")?;
        (u32::from_str_radix(events, 16).ok()? & INPUT != 0).then_some(descriptor)
    });
    Some(wanted.take(MAX_DESCRIPTORS as usize).collect())
}

fn memory(pid: i32, address: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    fs::File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

fn is_terminal(pid: i32, descriptor: u64, (device, inode): (u64, u64)) -> bool {
    fs::metadata(format!("/proc/{pid}/fd/{descriptor}"))
        .is_ok_and(|file| (file.dev(), file.ino()) == (device, inode) || file.rdev() == DEV_TTY)
}

fn reader(pid: i32, thread: i32, blocks: bool) -> TerminalReader {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).unwrap_or_default();
    let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let sleeps = switches.and_then(|count| count.trim().parse().ok()).unwrap_or_default();
    TerminalReader { program: name.trim_end().to_owned(), thread, sleeps, blocks }
}

fn group_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain any character. After it come the state, the parent and the group.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(2)?.parse().ok()
}

fn numbers(dir: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
