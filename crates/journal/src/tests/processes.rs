//! D8: several processes compete for one session, and its owner is killed again and again. There is one writer at a
//! time, the lock of a dead owner is free at once, and no event is written twice.

use super::{event, id, opened, scale};
use crate::{Owners, SessionError, open_state};
use althing_protocol::{Fact, Journal, Seq};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The variable of child processes that contains the state directory in which they compete.
const CHILD: &str = "ALTHING_STORAGE_CHILD";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildMessage {
    Holds(u64),
    Locked,
    Wrote(u64),
}

/// Not a test: in a child process (with the variable `CHILD`), this is the main loop. In the test process it does
/// nothing.
#[test]
fn a_child_competes_for_the_session_until_it_is_killed() {
    let Ok(state) = std::env::var(CHILD) else { return };
    let sessions = open_state(Path::new(&state), Owners::Me).unwrap();
    let mut opened = loop {
        match sessions.open(&id()) {
            Ok(opened) => break opened,
            Err(SessionError::Locked { .. }) => {
                println!("@@locked 0");
                // With many children, polling without a pause would starve the owner of CPU time.
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) => panic!("{e}"),
        }
    };
    let mut seq = opened.events.last().unwrap().seq;
    println!("@@holds {seq}");
    loop {
        seq = seq.next();
        opened.writer.append(&[event(seq.0, None, Fact::SessionClosed {})]).unwrap();
        println!("@@wrote {seq}");
    }
}

fn spawn(number: usize, state: &Path, messages: &Sender<(usize, ChildMessage)>) -> Child {
    let name = "tests::processes::a_child_competes_for_the_session_until_it_is_killed";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, state)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let messages = messages.clone();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            // A killed child may leave half a line.
            let Some((message, seq)) = line.split_once("@@").and_then(|(_, rest)| rest.split_once(' '))
            else {
                continue;
            };
            let seq = seq.parse().unwrap_or(0);
            let message = match message {
                "holds" => ChildMessage::Holds(seq),
                "locked" => ChildMessage::Locked,
                _ => ChildMessage::Wrote(seq),
            };
            let _ = messages.send((number, message));
        }
    });
    child
}

struct Competition {
    children: Vec<Child>,
    messages: Receiver<(usize, ChildMessage)>,
    /// Whether each child was killed. Messages that still arrive from a killed child are old.
    killed: Vec<bool>,
    last_acknowledged: u64,
}

impl Drop for Competition {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Competition {
    fn next_message(&mut self) -> (usize, ChildMessage) {
        let (child, message) =
            self.messages.recv_timeout(Duration::from_secs(120)).expect("no child reported anything");
        if let ChildMessage::Wrote(seq) = message {
            self.last_acknowledged = self.last_acknowledged.max(seq);
        }
        (child, message)
    }

    fn next_owner(&mut self) -> (usize, u64) {
        loop {
            match self.next_message() {
                (child, ChildMessage::Holds(seq)) if !self.killed[child] => return (child, seq),
                _ => {}
            }
        }
    }

    /// Waits until the owner has written and another child was refused. Meanwhile, no other child may own the session
    /// or write.
    fn watch(&mut self, owner: usize, round: usize) {
        let (mut wrote, mut refused) = (0, 0);
        while wrote < 3 || refused < 1 {
            match self.next_message() {
                (child, ChildMessage::Holds(_)) => {
                    panic!("round {round}: {child} owns the session while {owner} does")
                }
                (child, ChildMessage::Wrote(_)) if child == owner => wrote += 1,
                (child, ChildMessage::Wrote(_)) if !self.killed[child] => {
                    panic!("round {round}: {child} writes while {owner} owns the session")
                }
                (_, ChildMessage::Locked) => refused += 1,
                (_, ChildMessage::Wrote(_)) => {}
            }
        }
    }
}

#[test]
fn one_process_writes_at_a_time_and_a_killed_ones_lock_is_free() {
    // Each set has its own session: a log that grew over a thousand rounds takes long to read.
    let sets = [(2, 10), (4, 20), (16, 10)];
    for (competition, rounds) in sets.into_iter().cycle().take(sets.len() * scale(1, 25) as usize) {
        compete(competition, rounds);
    }
}

fn compete(count: usize, rounds: usize) {
    let home = tempfile::tempdir().unwrap();
    let sessions = open_state(home.path(), Owners::Me).unwrap();
    sessions.create(&id()).unwrap().append(&[event(1, None, opened())]).unwrap();
    let (sender, messages) = channel();
    let mut competition =
        Competition { children: Vec::new(), messages, killed: Vec::new(), last_acknowledged: 0 };
    for number in 0..count {
        competition.children.push(spawn(number, home.path(), &sender));
        competition.killed.push(false);
    }
    let (mut owner, _) = competition.next_owner();
    for round in 0..rounds {
        competition.watch(owner, round);
        competition.children[owner].kill().unwrap();
        competition.killed[owner] = true;
        competition.children[owner].wait().unwrap();
        // No child gives up, so one of them must get the lock of the dead owner.
        owner = competition.next_owner().0;
        let number = competition.children.len();
        competition.children.push(spawn(number, home.path(), &sender));
        competition.killed.push(false);
    }
    let acknowledged = competition.last_acknowledged;
    drop(competition);
    let events = sessions.open(&id()).unwrap().events;
    assert!(events.len() as u64 >= acknowledged, "{} events, {acknowledged} acknowledged", events.len());
    let numbers: Vec<_> = events.iter().map(|e| e.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).map(Seq).collect::<Vec<_>>());
    println!("{} events by {} processes", events.len(), rounds + 1);
}
