//! D8: several processes want one session and the one that has it is killed, again and again. One writer at a time, a
//! dead owner's lock is free at once, and no event is written twice.

use super::{event, id, opened, scale};
use crate::{SessionError, open_state};
use althing_protocol::{Fact, Journal, Seq};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Set for a child: the state directory it fights in.
const CHILD: &str = "ALTHING_STORAGE_CHILD";

/// What a child says on its standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// It has the session, whose last event is this one.
    Holds(u64),
    /// Another one has it.
    Locked,
    /// It has made this event durable.
    Wrote(u64),
}

/// Not a test of its own: the life of a child process, which never ends by itself.
#[test]
fn a_child_fights_for_the_session_until_it_is_killed() {
    let Ok(state) = std::env::var(CHILD) else { return };
    let sessions = open_state(Path::new(&state)).unwrap();
    let mut opened = loop {
        match sessions.open(&id()) {
            Ok(opened) => break opened,
            Err(SessionError::Locked { .. }) => {
                println!("@@locked 0");
                // How eager it is: many at once must leave the processors to whoever holds the session.
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

fn spawn(number: usize, state: &Path, words: &Sender<(usize, Word)>) -> Child {
    let name = "tests::processes::a_child_fights_for_the_session_until_it_is_killed";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, state)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let words = words.clone();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            // A killed child may leave half a line.
            let Some((word, seq)) = line.split_once("@@").and_then(|(_, said)| said.split_once(' ')) else {
                continue;
            };
            let seq = seq.parse().unwrap_or(0);
            let word = match word {
                "holds" => Word::Holds(seq),
                "locked" => Word::Locked,
                _ => Word::Wrote(seq),
            };
            let _ = words.send((number, word));
        }
    });
    child
}

struct Fighters {
    children: Vec<Child>,
    heard: Receiver<(usize, Word)>,
    /// Children that were killed: what they still say was said before.
    dead: Vec<bool>,
    last_acknowledged: u64,
}

impl Drop for Fighters {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Fighters {
    fn hear(&mut self) -> (usize, Word) {
        let (who, word) = self.heard.recv_timeout(Duration::from_secs(20)).expect("the fighters are silent");
        if let Word::Wrote(seq) = word {
            self.last_acknowledged = self.last_acknowledged.max(seq);
        }
        (who, word)
    }

    /// Waits for the next holder; whoever says so while another holds is a second writer.
    fn next_holder(&mut self) -> (usize, u64) {
        loop {
            match self.hear() {
                (who, Word::Holds(seq)) if !self.dead[who] => return (who, seq),
                _ => {}
            }
        }
    }

    /// Until the holder has written and somebody else has been turned away, nobody else may hold or write.
    fn watch(&mut self, holder: usize, round: usize) {
        let (mut wrote, mut refused) = (0, 0);
        while wrote < 3 || refused < 1 {
            match self.hear() {
                (who, Word::Holds(_)) => panic!("round {round}: {who} holds beside {holder}"),
                (who, Word::Wrote(_)) if who == holder => wrote += 1,
                (who, Word::Wrote(_)) if !self.dead[who] => {
                    panic!("round {round}: {who} writes beside {holder}")
                }
                (_, Word::Locked) => refused += 1,
                (_, Word::Wrote(_)) => {}
            }
        }
    }
}

#[test]
fn one_process_writes_at_a_time_and_a_killed_ones_lock_is_free_at_once() {
    // In sets, each with a session of its own: a log that grew over a thousand rounds takes long to read.
    let sets = [(2, 10), (4, 20), (16, 10)];
    for (fighters, rounds) in sets.into_iter().cycle().take(sets.len() * scale(1, 25) as usize) {
        fight(fighters, rounds);
    }
}

fn fight(number_of_fighters: usize, rounds: usize) {
    let home = tempfile::tempdir().unwrap();
    let sessions = open_state(home.path()).unwrap();
    sessions.create(&id()).unwrap().append(&[event(1, None, opened())]).unwrap();
    let (say, heard) = channel();
    let mut fighters = Fighters { children: Vec::new(), heard, dead: Vec::new(), last_acknowledged: 0 };
    for number in 0..number_of_fighters {
        fighters.children.push(spawn(number, home.path(), &say));
        fighters.dead.push(false);
    }
    let mut slowest = Duration::ZERO;
    let (mut holder, _) = fighters.next_holder();
    for round in 0..rounds {
        fighters.watch(holder, round);
        // SIGKILL, while it writes.
        fighters.children[holder].kill().unwrap();
        fighters.dead[holder] = true;
        fighters.children[holder].wait().unwrap();
        // Only the lock is timed: starting whoever fights in the dead one's place takes its own time.
        let dead = Instant::now();
        holder = fighters.next_holder().0;
        slowest = slowest.max(dead.elapsed());
        let number = fighters.children.len();
        fighters.children.push(spawn(number, home.path(), &say));
        fighters.dead.push(false);
    }
    assert!(slowest < Duration::from_secs(1), "a dead owner's lock took {slowest:?}");
    let acknowledged = fighters.last_acknowledged;
    drop(fighters);
    let events = sessions.open(&id()).unwrap().events;
    assert!(events.len() as u64 >= acknowledged, "{} events, {acknowledged} acknowledged", events.len());
    let numbers: Vec<_> = events.iter().map(|e| e.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).map(Seq).collect::<Vec<_>>());
    println!("{} events by {} processes, slowest hand-over {slowest:?}", events.len(), rounds + 1);
}
