//! The context bar at the top, the tabs of the team, and the mode bar above the input.

use super::count;
use crate::app::{App, ModeToggle, Target};
use crate::line;
use crate::modes::PlanMode;
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::{AgentMode, ChatState, SessionKind, TaskStatus};
use althing_view::TaskKind;
use althing_view::labels;
use althing_view::money::{cost, exact_money, has_cost};
use ratatui::layout::Rect;

pub fn status(app: &App) -> &'static str {
    let model = &app.model;
    if model.stalled.is_some() {
        return "Waiting for the disk";
    }
    if app.modes.plan_mode == PlanMode::Execute {
        return "Executing Plan";
    }
    if model.kind.is_none() || model.kind == Some(SessionKind::Chat) {
        return match model.state {
            ChatState::Idle if model.live_run().is_some() => labels::chat_state(ChatState::Running),
            state => labels::chat_state(state),
        };
    }
    match (model.workflow().map(|workflow| workflow.status), model.kind) {
        (Some(TaskStatus::Done), _) => "Done ✓",
        (Some(status @ (TaskStatus::Failed | TaskStatus::Cancelled | TaskStatus::Interrupted)), _) => {
            labels::unfinished_run_status(status)
        }
        (Some(_), _) | (None, Some(SessionKind::Workflow)) => "Running",
        (None, _) if model.is_busy() => "Running",
        (None, _) => "Done",
    }
}

pub fn context(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let model = &app.model;
    let project = model.project.as_deref().unwrap_or("none");
    let project = project.trim_end_matches('/').rsplit('/').next().unwrap_or(project);
    // Empty on a narrow screen, where the mode bar shows whether interactive mode is on, and for a workflow, whose name
    // is at the left.
    let mode = if area.width < 60 || (app.options.workflow && !app.options.replay) {
        ""
    } else if app.options.replay {
        "Replay"
    } else if app.modes.interactive_mode {
        "Interactive"
    } else {
        "Direct"
    };
    let waiting = model.waiting();
    let usage = model.usage();
    let mut pieces: Vec<(Tone, String, u8)> = Vec::new();
    pieces.push((Tone::AccentBold, "Althing".into(), 6));
    match model.workflow() {
        Some(workflow) => {
            pieces.push((Tone::Plain, format!("Workflow: {}", line::cut(&workflow.name, 24)), 1));
        }
        None => pieces.push((Tone::Plain, format!("Project: {}", line::cut(project, 24)), 1)),
    }
    pieces.push((Tone::Bold, format!("Status: {}", status(app)), 0));
    if let (Some(stage), Some(workflow)) = (model.stage, model.workflow())
        && let TaskKind::Workflow(stages) = &workflow.kind
    {
        pieces.push((Tone::Dim, format!("stage {} of {}", stage + 1, stages.len()), 3));
        pieces.push((Tone::Dim, super::tasks::elapsed_time(workflow, app.now), 5));
    }
    if waiting > 0 {
        let word = if waiting == 1 { "1 waits for you".into() } else { format!("{waiting} wait for you") };
        pieces.push((Tone::Warn, word, 0));
    }
    if model.is_offline() {
        pieces.push((Tone::Warn, "offline".into(), 2));
    }
    if !model.team.is_empty() {
        pieces.push((Tone::Dim, count(model.team.len(), "agent"), 5));
    }
    if has_cost(&usage) || model.budget_micro_usd.is_some() {
        let of = model.budget_micro_usd.map(|budget| format!(" of {}", exact_money(budget)));
        let what = if usage.cost_usd > 0.0 || usage.unpriced_calls == 0 { "" } else { "cost " };
        pieces.push((Tone::Dim, format!("{what}{}{}", cost(&usage), of.unwrap_or_default()), 4));
    }
    let room = usize::from(area.width).saturating_sub(2 + mode.len());
    let gap = if area.width < 60 { 1 } else { 3 };
    let needs = |pieces: &[(Tone, String, u8)]| {
        pieces.iter().map(|(_, text, _)| line::width(text) + gap).sum::<usize>()
    };
    while needs(&pieces) > room {
        let Some(least) = pieces.iter().map(|(_, _, rank)| *rank).max().filter(|rank| *rank > 0) else {
            break;
        };
        pieces.retain(|(_, _, rank)| *rank != least);
    }
    let mut x = area.x + 1;
    let end = area.right().saturating_sub(mode.len() as u16 + 2);
    for (tone, text, _) in &pieces {
        let used = canvas.text(x, area.y, end.saturating_sub(x), *tone, text);
        if text.ends_with("for you") {
            app.targets.push((Rect::new(x, area.y, used, 1), Target::Tasks));
        }
        x = x.saturating_add(used + gap as u16);
    }
    canvas.right(area.right().saturating_sub(1), area.y, mode.len() as u16, Tone::Accent, mode);
    canvas.rule(area, area.y + 1);
}

pub fn tabs(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let locked = app.model.is_busy();
    let chosen = app.modes.selected_agent.clone();
    let mut x = area.x + 1;
    for (member_index, member) in app.model.team.iter().enumerate() {
        let active = chosen.as_ref() == Some(&member.id);
        let tone = match (active, locked) {
            (true, false) => Tone::AccentBold,
            (true, true) => Tone::Bold,
            (false, _) => Tone::Dim,
        };
        let mark = if active { " works" } else { "" };
        let text = format!("{} {}{mark}", member_index + 1, line::cut(member.id.as_str(), 20));
        let used = canvas.text(x, area.y, area.right().saturating_sub(x), tone, &text);
        app.targets.push((Rect::new(x, area.y, used, 1), Target::Agent(member_index)));
        x = x.saturating_add(used + 3);
        if x >= area.right() {
            break;
        }
    }
}

/// The modes as words, and whether each is on.
fn mode_words(app: &App) -> [(ModeToggle, &'static str, bool); 4] {
    let modes = &app.modes;
    let single = modes.agent_mode == AgentMode::Single;
    let planning = modes.plan_mode == PlanMode::Plan;
    let interactive = if modes.interactive_mode { "Interactive" } else { "Interactive off" };
    [
        (ModeToggle::Plan, if planning { "Plan on" } else { "Plan" }, planning),
        (ModeToggle::Agents, labels::agent_mode(single), true),
        (ModeToggle::Refine, if modes.refinement { "Refine" } else { "Refine off" }, modes.refinement),
        (ModeToggle::Interactive, interactive, modes.interactive_mode),
    ]
}

/// The columns of the modes, with their separators.
pub fn words_width(app: &App, area: Rect) -> usize {
    if area.width < 60 {
        return 7;
    }
    mode_words(app).iter().map(|(_, text, _)| line::width(text) + 3).sum::<usize>() - 3
}

/// The rows of the mode bar: more than one if a message to the user needs them.
pub fn mode_rows(app: &App, area: Rect) -> u16 {
    (super::toast_lines(app, area).len() as u16).max(1)
}

/// The mode bar: a click on a word toggles its mode (on `Interactive`, it only shows a message). While an approved plan
/// is executed, the bar shows the plan's path instead. A message to the user is shown beside the modes or, if it is too
/// long, instead of them.
pub fn modes(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, hint: &str) {
    let executing = app.modes.plan_mode == PlanMode::Execute;
    let toast = app.toast.as_deref().map_or(0, line::width);
    if toast > 0 && (executing || toast + words_width(app, area) + 4 > area.width.into()) {
        let lines = super::toast_lines(app, Rect { height: area.height.saturating_mul(3), ..area });
        for (y, line) in (area.top()..area.bottom()).zip(lines) {
            canvas.line(area.x + 1, y, area.width.saturating_sub(2), &line);
        }
        return;
    }
    if executing {
        let plan = app.model.live_run().and_then(|run| run.plan.as_ref()).or(app.model.pending_plan.as_ref());
        let path = plan.map(|plan| plan.path.clone()).unwrap_or_default();
        let used = canvas.text(area.x + 1, area.y, area.width - 1, Tone::AccentBold, "Executing Plan");
        let room = area.width.saturating_sub(used + 4);
        // While the conversation is searched, the count of matches is more important than the path.
        let least =
            if app.scroll.search_label().is_some() && app.browsing { line::width(hint) + 3 } else { 0 };
        let path = line::cut(&path, usize::from(room).saturating_sub(least));
        let used = used + 2 + canvas.text(area.x + 3 + used, area.y, room, Tone::Plain, &path);
        let room = area.width.saturating_sub(used + 5);
        let hint = super::fitting_hints(hint, room.into());
        canvas.right(area.right().saturating_sub(1), area.y, room, Tone::Dim, &hint);
        return;
    }
    // Below 80 columns, each mode may be one letter. Upper case means on.
    let least = super::fitting_hints(hint, usize::from(area.width.saturating_sub(12)).min(12));
    let short = area.width < 60
        || area.width < 80 && words_width(app, area) + line::width(&least) + 4 > area.width.into();
    let locked = app.model.is_busy();
    let mut x = area.x + 1;
    for (n, (word, text, active)) in mode_words(app).into_iter().enumerate() {
        if n > 0 {
            x += canvas.text(x, area.y, 3, Tone::Dim, if short { " " } else { " · " });
        }
        let tone = match (locked, active, word) {
            (true, _, _) | (false, false, _) => Tone::Dim,
            (false, true, ModeToggle::Plan) => Tone::AccentBold,
            (false, true, _) => Tone::Bold,
        };
        let first = text.chars().next().unwrap_or(' ');
        let letter = if active { first.to_string() } else { first.to_lowercase().to_string() };
        let shown = if short { letter.as_str() } else { text };
        let used = canvas.text(x, area.y, area.right().saturating_sub(x), tone, shown);
        app.targets.push((Rect::new(x, area.y, used, 1), Target::Mode(word)));
        x += used;
    }
    let room = area.right().saturating_sub(x + 3);
    let end = area.right().saturating_sub(1);
    match &app.toast {
        Some(word) => canvas.right(end, area.y, room, Tone::Warn, word),
        None => canvas.right(end, area.y, room, Tone::Dim, &super::fitting_hints(hint, room.into())),
    };
}
