//! An opened run: agent tabs, votes, timelines, the final answer.

use super::{card, hints, spread, timeline::Timeline, tokens};
use crate::app::{App, RunScreen, Target, has_changes};
use crate::line::{self, Line};
use crate::list::{self, ListItems};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::{AgentId, AgentMode, Timestamp};
use althing_view::RunView;
use althing_view::money::{cost, has_cost};
use ratatui::layout::Rect;

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, screen: &RunScreen) {
    let Some(run) = app.model.runs.get(&screen.id) else { return };
    head(app, canvas, area, run);
    let mut y = area.y + 1;
    let mut targets = Vec::new();
    y += tabs(app, canvas, Rect { y, height: 2, ..area }, run, screen, &mut targets);
    canvas.rule(area, y);
    y += 1;
    let about = run.agents.get(screen.tab).map(|agent| {
        let member = &agent.member;
        let mut details =
            vec![member.id.to_string(), member.model.clone(), format!("round {}", agent.round.max(1))];
        details.push(format!("{} tokens", tokens(&agent.usage)));
        if has_cost(&agent.usage) {
            let what = if agent.usage.cost_usd > 0.0 { "" } else { "cost " };
            details.push(format!("{what}{}", cost(&agent.usage)));
        }
        if member.offline {
            details.push("offline, not an AI".into());
        }
        details.join(" · ")
    });
    let roomy = !app.has_input() || area.height >= super::ROOMY;
    if let Some(about) = about.filter(|_| roomy) {
        canvas.text(area.x + 1, y, area.width.saturating_sub(2), Tone::Dim, &about);
        y += 1;
    }
    let can_cancel = has_cancel(run, area);
    let changed = has_changes(run);
    let last = run.agents.len();
    let panel = super::panel(app, canvas, area, y);
    let placed = timeline(app, canvas, panel.body, screen);
    let item = |row: list::PlacedRow| (Rect { y: row.y, height: 1, ..panel.body }, Target::Item(row.item));
    targets.extend(placed.into_iter().map(item));
    let back = Rect { height: 1, width: 8.min(area.width), ..area };
    targets.push((back, Target::Back));
    if can_cancel {
        let cancel = Rect { x: area.right().saturating_sub(10), width: 10, height: 1, ..area };
        targets.push((cancel, Target::Key('x')));
    }
    app.targets.extend(targets);
    let found = super::reader::search_hint(app);
    let words = match (app.input_has_focus(), app.has_input(), screen.tab == last) {
        (false, ..) if found.is_some() => found.as_deref().unwrap_or_default(),
        (true, ..) => "tab go into the run · esc close it",
        (false, false, true) if changed => "↑↓ scroll · d diff · u undo · c copy",
        (false, true, true) if changed => "↑↓ scroll · d diff · u undo · tab input",
        (false, false, true) => "↑↓ scroll · / search · c copy",
        (false, true, true) => "↑↓ scroll · / search · c copy · tab input",
        (false, false, false) => "↑↓ move · enter open · tab next agent · d diff answers · / search",
        (false, true, false) => "↑↓ move · enter open · ←→ agent · d diff answers · / search · tab input",
    };
    let search = screen.search.as_deref().filter(|_| screen.typing);
    hints(app, canvas, area, &panel, search, words);
}

fn has_cancel(run: &RunView, area: Rect) -> bool {
    run.is_live() && area.width >= 60
}

fn head(app: &App, canvas: &mut Canvas<'_>, area: Rect, run: &RunView) {
    let state = if run.is_live() {
        format!("{} · round {} · {}", run.phase_label(), run.rounds().max(1), card::elapsed(run, app.now))
    } else {
        format!("{} · {}", run.status_label(), card::elapsed(run, app.now))
    };
    let small = area.width < 60;
    let state = if small { card::elapsed(run, app.now) } else { state };
    let spent = run.usage();
    let cost = if spent.cost_usd > 0.0 && !small { format!(" · {}", cost(&spent)) } else { String::new() };
    let cancel = match (has_cancel(run, area), app.input_has_focus()) {
        (true, false) => "   x cancel ",
        (true, true) => "     cancel ",
        (false, _) => " ",
    };
    let right = Line::of(Tone::Plain, &format!("{state}{cost}")).with(Tone::Dim, cancel);
    let task = format!("Run: {}", line::first_line(&run.task));
    let left = Line::of(Tone::Dim, if small { " ‹ " } else { " ‹ esc   " })
        .with(if app.input_has_focus() { Tone::Plain } else { Tone::Bold }, &task);
    canvas.line(area.x, area.y, area.width, &spread(&left, &right, area.width.into()));
}

fn tabs(
    app: &App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    run: &RunView,
    screen: &RunScreen,
    targets: &mut Vec<(Rect, Target)>,
) -> u16 {
    let strip = strip(run);
    let single = app.modes.agent_mode == AgentMode::Single;
    let mut labels: Vec<(String, String)> = run
        .agents
        .iter()
        .enumerate()
        .map(|(member_index, agent)| {
            let activity = line::cut(line::first_line(&agent.activity()), 24);
            (format!("{} {}", member_index + 1, line::cut(agent.member.id.as_str(), 16)), activity)
        })
        .collect();
    if run.result.is_some() {
        labels.push(("f final answer".into(), String::new()));
    }
    let whole: usize =
        labels.iter().map(|(name, activity)| line::width(name) + line::width(activity) + 4).sum();
    let beside = whole + strip.width() + 2 <= area.width.into();
    let roomy = whole <= area.width.into();
    let mut x = area.x + 1;
    for (member_index, (name, activity)) in labels.iter().enumerate() {
        let shown = member_index == screen.tab;
        let works =
            app.modes.selected_agent.as_ref() == run.agents.get(member_index).map(|agent| &agent.member.id);
        let tone = match (shown, single && !works) {
            (true, _) => Tone::AccentBold,
            (false, true) => Tone::Dim,
            (false, false) => Tone::Bold,
        };
        let room = |x: u16| area.right().saturating_sub(x);
        let mut used = canvas.text(x, area.y, room(x), tone, name);
        if roomy || shown {
            used += 1 + canvas.text(x + used + 1, area.y, room(x + used + 1), Tone::Dim, activity);
        }
        targets.push((Rect::new(x, area.y, used, 1), Target::Tab(member_index)));
        x = x.saturating_add(used + 2);
    }
    if strip.pieces.is_empty() {
        return 1;
    }
    let wide = (strip.width() as u16).min(area.width);
    let y = if beside { area.y } else { area.y + 1 };
    canvas.line(area.right().saturating_sub(wide + 1), y, wide, &strip);
    if beside { 1 } else { 2 }
}

/// The vote counts and the agents that have not voted; before the first vote, how many agents have answered.
fn strip(run: &RunView) -> Line {
    let mut strip = Line::default();
    let tally = run.tally();
    if tally.iter().all(|(_, votes)| *votes == 0) {
        let answered = run.agents.iter().filter(|agent| agent.answers().next().is_some()).count();
        if run.is_live() {
            strip.push(Tone::Dim, &format!("{answered} of {} answered", run.agents.len()));
        }
        return strip;
    }
    for (agent, votes) in tally.into_iter().filter(|(_, votes)| *votes > 0) {
        strip.push(Tone::Plain, &format!("{} ", line::cut(agent.as_str(), 12)));
        strip.push(Tone::Accent, &"█".repeat((votes as usize).min(12)));
        strip.push(Tone::Plain, &format!(" {votes}  "));
    }
    let waiting: Vec<&str> = run
        .agents
        .iter()
        .filter(|agent| agent.vote.is_none() && !agent.dropped_out && run.vote.is_none())
        .map(|agent| agent.member.id.as_str())
        .collect();
    if !waiting.is_empty() && run.is_live() {
        strip.push(Tone::Dim, &format!("waiting: {}", waiting.join(", ")));
    }
    strip
}

pub(crate) struct FinalAnswerItem<'a>(pub(crate) &'a RunView);

impl ListItems for FinalAnswerItem<'_> {
    fn len(&self) -> usize {
        1
    }

    fn version(&self, _: usize) -> Option<u64> {
        Some(1 + u64::from(self.0.is_undone))
    }

    fn layout(&self, _: usize, width: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        card::final_answer(self.0, width, &mut lines);
        lines.push(Line::default());
        lines.push(Line::of(
            Tone::Dim,
            &line::cut(&format!("   {}", card::details(self.0, Timestamp(0))), width),
        ));
        if let Some(decision) = self.0.vote.as_ref().and_then(|vote| vote.decision.as_ref()) {
            let rows = line::wrap_text(Tone::Dim, &decision.explanation, width.saturating_sub(3));
            lines.extend(rows.into_iter().map(|row| row.indented(3)));
        }
        let summary = self.0.result.as_ref().map(|result| &result.coordination_summary);
        for ballot in summary.into_iter().flat_map(|summary| &summary.ballots) {
            let choices: Vec<&str> = ballot.choices().iter().map(AgentId::as_str).collect();
            let choices = choices.join(" > ");
            let text = format!("   {} → {choices}  \"{}\"", ballot.voter, line::first_line(&ballot.reason));
            lines.push(Line::of(Tone::Dim, &line::cut(&text, width)));
        }
        lines
    }
}

fn timeline(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, screen: &RunScreen) -> Vec<list::PlacedRow> {
    let Some(run) = app.model.runs.get(&screen.id) else { return Vec::new() };
    // The scroll position is stored in the top screen, of which `screen` is a copy.
    let Some(crate::app::TuiScreen::Run(held)) = app.screens.last_mut() else { return Vec::new() };
    let Some(scroll) = held.scrolls.get_mut(screen.tab) else { return Vec::new() };
    let list_id = super::list_id(&["run", run.id.as_str(), &screen.tab.to_string()]);
    match run.agents.get(screen.tab) {
        Some(agent) => {
            let items = Timeline { agent, start: run.started };
            let count = agent.timeline.len();
            let mut placed = list::draw(canvas, area, list_id, &items, scroll, &mut app.layouts);
            placed.retain(|row| row.item < count);
            placed
        }
        None if run.result.is_some() => {
            list::draw(canvas, area, list_id, &FinalAnswerItem(run), scroll, &mut app.layouts);
            Vec::new()
        }
        None => Vec::new(),
    }
}
