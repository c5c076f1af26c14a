//! Model calls and time of runs whose agents agree, refine or are unequally fast: by Althing and, where it is
//! installed, by MassGen, with the same config and the same scripted models on the same server.
//!
//! A scripted model answers again until the request shows as many of its answers as it wants to give; then it votes.
//! So an answer of a stopped call does not count as given, and is given again. Every request counts, also one whose
//! reply was stopped.

use crate::massgen::{Observed, find, once, version};
use crate::measure::{Programs, median};
use crate::verdict::{print_line, report, report_value};
use althing_testkit::{Action, FakeModel, FakeModelOptions, Parliament, RecordedRequest, Reply, Script};
use std::path::Path;
use std::time::Duration;

const TEAMS: [usize; 3] = [3, 8, 16];
/// The text chunks of a reply. A reply has about four more chunks, for its tool call and its end.
const CHUNKS: u32 = 8;
const FASTEST: Duration = Duration::from_millis(400);
/// How much slower each model is than the one before it, if the models are unequally fast.
const STEP: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Improver {
    Nobody,
    Everyone,
    /// Only the first agent, which gets all votes.
    Favorite,
    /// Only the last agent, while all vote for the first one.
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Pattern {
    name: &'static str,
    improver: Improver,
    times: usize,
    staggered: bool,
    keys: &'static str,
    least: fn(usize) -> usize,
}

const PATTERNS: [Pattern; 7] = [
    pattern("all agree", Improver::Nobody, 0, |n| 2 * n + 1),
    pattern("all agree", Improver::Nobody, 0, |n| 2 * n + 1).staggered(),
    pattern("all improve once", Improver::Everyone, 1, |n| 3 * n + 1),
    pattern("all improve once", Improver::Everyone, 1, |n| 3 * n + 1).staggered(),
    pattern("all improve once, max_new_answers_per_agent: 2", Improver::Everyone, 1, |n| 3 * n + 1)
        .staggered()
        .with("orchestrator: {max_new_answers_per_agent: 2}\n"),
    pattern("the favorite improves twice", Improver::Favorite, 2, |n| 2 * n + 3).staggered(),
    pattern("another improves twice", Improver::Other, 2, |n| 2 * n + 3 + 2 * (n - 1)).staggered(),
];

const fn pattern(name: &'static str, improver: Improver, times: usize, least: fn(usize) -> usize) -> Pattern {
    Pattern { name, improver, times, staggered: false, keys: "", least }
}

impl Pattern {
    const fn staggered(self) -> Self {
        Self { staggered: true, ..self }
    }

    const fn with(self, keys: &'static str) -> Self {
        Self { keys, ..self }
    }

    fn answers(self, number: usize, agents: usize) -> usize {
        let improves = match self.improver {
            Improver::Nobody => false,
            Improver::Everyone => true,
            Improver::Favorite => number == 1,
            Improver::Other => number == agents,
        };
        1 + if improves { self.times } else { 0 }
    }

    fn takes(self, number: usize) -> Duration {
        let steps = if self.staggered { number.saturating_sub(1) } else { 0 };
        FASTEST + STEP * u32::try_from(steps).unwrap()
    }

    fn script(self, agents: usize) -> Script {
        Script::from_fn(move |request: &RecordedRequest| {
            let number = request.model().trim_start_matches("model-").parse().unwrap_or(1);
            let pace = self.takes(number) / (CHUNKS + 4);
            Action::from(self.reply(request, number, agents).pace(pace))
        })
    }

    fn reply(self, request: &RecordedRequest, number: usize, agents: usize) -> Reply {
        let tools = request.tool_names();
        let shown = String::from_utf8_lossy(request.raw_body());
        let answer = |nth: usize| format!("Answer of model-{number}, version {nth}.");
        let wanted = self.answers(number, agents);
        let given = (1..=wanted).rev().find(|nth| shown.contains(&answer(*nth))).unwrap_or(0);
        let spoken = (0..CHUNKS).map(|n| format!("word {n} of the reply; "));
        if tools.contains(&"new_answer") && given < wanted {
            return Reply::new_answer(&answer(given + 1)).text_chunks(spoken);
        }
        let ids = request.tool_parameters("vote").and_then(|it| it.pointer("/properties/agent_id/enum"));
        let ids: Vec<&str> =
            ids.and_then(|it| it.as_array()).into_iter().flatten().filter_map(|it| it.as_str()).collect();
        match ids.iter().find(|id| **id == "agent1").or(ids.first()) {
            Some(id) => Reply::vote(id, "It is complete.").text_chunks(spoken),
            None => Parliament::chatter(CHUNKS as usize + 3).reply(request),
        }
    }
}

pub fn all(programs: &Programs, rounds: usize) {
    let massgen = find();
    match &massgen {
        Some(massgen) => report_value("every pair: ours / MassGen's; its version", version(massgen)),
        None => print_line("  no MassGen here, so only Althing is measured"),
    }
    for pattern in PATTERNS {
        for agents in TEAMS {
            beside(programs, massgen.as_deref(), pattern, agents, rounds.min(3));
        }
    }
}

fn beside(programs: &Programs, massgen: Option<&Path>, pattern: Pattern, agents: usize, rounds: usize) {
    let server = FakeModel::start_on_thread_with(FakeModelOptions::default(), pattern.script(agents));
    let (mut ours, mut theirs) = (Observed::default(), Observed::default());
    for _ in 0..rounds {
        once(&programs.althing, &server, agents, pattern.keys, &mut ours);
        if let Some(massgen) = massgen {
            once(massgen, &server, agents, pattern.keys, &mut theirs);
        }
    }
    let speeds = if pattern.staggered { "unequal speeds" } else { "equal speeds" };
    let what = format!("{}, {speeds}, {agents} agents", pattern.name);
    let least = (pattern.least)(agents);
    let phase = |observed: &Observed| format!("{:.2} s", median(observed.rest_ms.clone()) / 1e3);
    let mut calls = ours.calls();
    let mut phases = phase(&ours);
    if massgen.is_some() {
        calls = format!("{calls} / {}", theirs.calls());
        phases = format!("{phases} / {}", phase(&theirs));
    }
    let got = format!("calls {calls}; from the first request to the last reply {phases}");
    report(&what, got, &format!("at most {least} calls"), ours.most_calls() <= least as f64);
    if ours.unanswered + theirs.unanswered > 0 {
        let got = format!("{} / {}", ours.unanswered, theirs.unanswered);
        report_value(&format!("{what}: runs without an answer"), got);
    }
}
