//! Draws the approval dialog of a run or a plan, and the dialogs for the presenter, for questions of programs, for
//! interrupted programs, for the budget and for confirmations.

use super::dialog::{self, DialogText, LABEL, ROW_MARK};
use super::modal::buttons;
use super::{chooser, count, fitting_hints, program_dialog};
use crate::app::{App, ConfirmedAction, Field, Modal, approval_members};
use crate::editor::Editor;
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::{FileDiff, FileWrite, LaunchRun, Member, Proposal};
use althing_text::sanitize;
use althing_view::money::exact_money;
use althing_view::{cost_estimate, labels, missing_sign_ins, shown};
use ratatui::layout::Rect;

const MANY_PATHS: usize = 4;

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, modal: &Modal) {
    match modal {
        Modal::RunApproval { proposal, edited, field, editor, problem, .. } => {
            let proposal = &approval_members::with_added_paths(proposal, edited);
            let edited = &shown::launch(edited);
            let parts = RunParts { proposal, edited, problem: problem.as_deref() };
            draw_run_approval(app, canvas, area, modal, &parts, *field, editor);
        }
        Modal::PlanApproval { preview, field, instructions, changes, plan, .. } => {
            let tasks = count(preview.len(), "task");
            let room = usize::from(area.width.min(96)).saturating_sub(18 + line::width(&tasks));
            let goal = app.model.plan_goal(plan).map_or(plan.id.as_str(), line::first_line);
            let title = format!("Plan: {} · {tasks}", line::cut(goal, room));
            let editor = if *field == Field::Changes { changes } else { instructions };
            draw_plan_approval(app, canvas, area, (modal, &title), preview, *field, editor);
        }
        Modal::Override { id, candidates, chosen } => {
            chooser::draw(app, canvas, area, id, candidates, *chosen)
        }
        _ => {}
    }
}

struct RunParts<'a> {
    proposal: &'a Proposal,
    edited: &'a LaunchRun,
    problem: Option<&'a str>,
}

fn paths(label: &str, paths: &[String], end: &str, width: usize) -> Vec<Line> {
    let mut shown: Vec<_> = paths.iter().map(|path| sanitize::line(path)).collect();
    if let Some(last) = shown.last_mut() {
        last.to_mut().push_str(end);
    }
    if shown.len() < MANY_PATHS {
        let together = dialog::entry(&shown.join(", "), dialog::value_width(width), 2);
        return dialog::labeled(label, together, width);
    }
    let entries = shown.iter().flat_map(|path| dialog::entry(path, dialog::value_width(width), 2));
    dialog::labeled(label, entries.collect(), width)
}

impl RunParts<'_> {
    /// Who takes part, how and at what cost: agents, modes, added prompts, changed rules, the estimate and missing
    /// sign-ins.
    fn team(&self, app: &App, width: usize) -> Vec<Line> {
        let members = approval_members::members(self.proposal, self.edited, &app.model.team);
        let agents: Vec<String> =
            members.iter().map(|member| format!("{} {}", member.id, member.model)).collect();
        let modes = modes(self.proposal, self.edited, &app.model.team);
        let mut lines = dialog::value("Agents", &agents.join(" · "), width);
        lines.extend(dialog::value("Modes", &modes, width));
        for (label, text) in
            [("Prompts", labels::added_prompts(self.edited)), ("Rules", labels::changed_rules(self.edited))]
        {
            if !text.is_empty() {
                lines.extend(dialog::value(label, &text, width));
            }
        }
        if let Some(cost) = cost_estimate(self.proposal, self.edited, &members) {
            lines.extend(dialog::value("Cost", &cost, width));
        }
        if let Some(missing) = missing_sign_ins(self.proposal, &members) {
            lines.extend(dialog::value("Sign-in", &missing, width));
        }
        lines
    }

    fn reads(&self, width: usize) -> Vec<Line> {
        match self.proposal.may_read.as_slice() {
            [] => Vec::new(),
            reads => paths("Reads", reads, "", width),
        }
    }

    fn writes(&self, app: &App, width: usize) -> Vec<Line> {
        let members = approval_members::members(self.proposal, self.edited, &app.model.team);
        let by = match members.as_slice() {
            [alone] => format!(", by {}", alone.id),
            _ => ", by the presenter after the vote".to_owned(),
        };
        match self.proposal.writes().as_slice() {
            [] => dialog::value("May write", "nothing outside its workspaces", width),
            writes => paths("May write", writes, &by, width),
        }
    }

    fn problem(&self, width: usize) -> Vec<Line> {
        self.problem.map(|problem| line::wrap_text(Tone::Bad, problem, width)).unwrap_or_default()
    }

    /// The lines of the dialog. If they do not fit into `room` rows, the first line of the task and what the run is
    /// permitted come first. The whole task and its context permit nothing, so they come last and need not be read
    /// before an approval.
    fn text(&self, app: &App, width: usize, room: usize) -> DialogText {
        let context = self.edited.context.as_deref().filter(|context| !context.is_empty());
        let context = context.map(|context| dialog::value("Context", context, width)).unwrap_or_default();
        let task = dialog::value("Task", &self.edited.task, width);
        let (team, reads, writes) = (self.team(app, width), self.reads(width), self.writes(app, width));
        let problem = self.problem(width);
        let rows = [&problem, &task, &context, &team, &reads, &writes].map(Vec::len).iter().sum::<usize>();
        if rows <= room {
            return DialogText::whole([problem, task, context, team, reads, writes].concat());
        }
        let first = dialog::first_line("Task", &self.edited.task, width);
        let mut text = DialogText::whole([problem, first, writes, reads, team].concat());
        if task.len() > 1 {
            text.lines.extend(task);
        }
        text.lines.extend(context);
        text
    }

    fn edited_text(
        &self,
        app: &App,
        field: Field,
        editor: &Editor,
        width: usize,
    ) -> (DialogText, (usize, usize)) {
        let mut lines = self.problem(width);
        let mut cursor = (0, 0);
        let wrapped = editor.wrap(dialog::value_width(width));
        for (label, text, edits) in [
            ("Task", self.edited.task.as_str(), field == Field::Task),
            ("Context", self.edited.context.as_deref().unwrap_or_default(), field == Field::Context),
        ] {
            if edits {
                let rows = wrapped.rows.iter().map(|row| Line::of(Tone::Plain, row)).collect();
                let labeled = dialog::labeled(label, rows, width);
                let beside = usize::from(labeled.len() == wrapped.rows.len());
                cursor = (lines.len() + 1 - beside + wrapped.cursor.0, LABEL * beside + wrapped.cursor.1);
                lines.extend(labeled);
            } else if !text.is_empty() {
                lines.extend(dialog::value(label, text, width));
            }
        }
        lines.extend(self.team(app, width));
        lines.extend(self.reads(width));
        lines.extend(self.writes(app, width));
        (DialogText { follow: Some(cursor.0), edits: true, ..DialogText::whole(lines) }, cursor)
    }
}

fn draw_run_approval(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    modal: &Modal,
    parts: &RunParts<'_>,
    field: Field,
    editor: &Editor,
) {
    let (width, title) = (dialog::text_width(area), "Launch this run?");
    if field != Field::Buttons {
        let (text, cursor) = parts.edited_text(app, field, editor, width);
        let (below, inside) = dialog::draw(app, canvas, area, (modal, title), &text, 1);
        let row = cursor.0.saturating_sub(app.reading.hidden().above);
        if row < usize::from(inside.height) {
            canvas.set_cursor(inside.x + cursor.1 as u16, inside.y + row as u16);
        }
        let keys = fitting_hints("enter done · tab next field · alt+enter new line", below.width.into());
        canvas.text(below.x, below.y, below.width, Tone::Dim, &keys);
        return;
    }
    let room = usize::from(area.height).saturating_sub(5);
    let text = parts.text(app, width, room);
    let (below, _) = dialog::draw(app, canvas, area, (modal, title), &text, 1);
    let choices = [("Approve", "⏎", '\n'), ("Edit", "e", 'e'), ("Cancel", "esc", '\x1b')];
    buttons(app, canvas, below, below.y, &choices);
    let hint = if approval_members::is_single(parts.proposal, parts.edited)
        && approval_members::candidates(parts.proposal, &app.model.team).len() > 1
    {
        "←→ who · m agents · r refine"
    } else {
        "m agents · r refine"
    };
    if app.box_note().is_none() {
        let room = below.width.saturating_sub(46);
        let hint = fitting_hints(hint, room.into());
        canvas.right(below.right(), below.y, room, Tone::Dim, &hint);
    }
}

fn modes(proposal: &Proposal, edited: &LaunchRun, team: &[Member]) -> String {
    let single = approval_members::is_single(proposal, edited);
    let refine = edited.refinement.unwrap_or(proposal.modes.refinement);
    let who = single_agent_line(proposal, edited, team);
    let mut words =
        vec![if single { who.as_str() } else { labels::agent_mode(false) }, labels::refinement(refine)];
    if proposal.modes.planning {
        words.insert(0, "Plan");
    }
    if edited.execute_after_planning {
        words.push("then execute");
    }
    let chosen: Vec<&str> = proposal
        .chosen
        .iter()
        .filter_map(|name| match name.as_str() {
            "agent_mode" => Some(labels::agent_mode(single)),
            "refinement" => Some(labels::refinement(refine)),
            "planning" => Some("Plan"),
            _ => None,
        })
        .collect();
    let words = words.join(" · ");
    if chosen.is_empty() { words } else { format!("{words}   ({}: your choice)", chosen.join(", ")) }
}

fn single_agent_line(proposal: &Proposal, edited: &LaunchRun, team: &[Member]) -> String {
    let pool = approval_members::candidates(proposal, team);
    if pool.len() < 2 {
        return labels::agent_mode(true).into();
    }
    let chosen = approval_members::members(proposal, edited, team);
    let name = |member: &Member| {
        if chosen.iter().any(|chosen| chosen.id == member.id) {
            format!("‹{}›", member.id)
        } else {
            member.id.to_string()
        }
    };
    let names: Vec<String> = pool.iter().map(name).collect();
    format!("Single: {}", names.join(" "))
}

fn plan_lines(preview: &[String], width: usize) -> Vec<Line> {
    let indent = preview.len().to_string().len() + 1;
    let task = |(n, text): (usize, &String)| dialog::entry(&format!("{} {text}", n + 1), width, indent);
    preview.iter().enumerate().flat_map(task).collect()
}

fn draw_plan_approval(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    (modal, title): (&Modal, &str),
    preview: &[String],
    field: Field,
    editor: &Editor,
) {
    let width = dialog::text_width(area);
    let wrapped = editor.wrap(width.saturating_sub(2).max(8));
    // At least half of the dialog is for the plan.
    let most = usize::from(area.height.saturating_sub(8) / 2).max(1);
    let from = (wrapped.cursor.0 + 1).saturating_sub(most);
    let rows: Vec<&String> = wrapped.rows.iter().skip(from).take(most).collect();
    let text = DialogText::whole(plan_lines(preview, width));
    let (below, _) = dialog::draw(app, canvas, area, (modal, title), &text, rows.len() + 3);
    let (label, tone) = match field {
        Field::Changes => ("What should change:", Tone::Accent),
        Field::Instructions => ("Add instructions (optional):", Tone::Accent),
        _ => ("Add instructions (optional): tab", Tone::Dim),
    };
    canvas.text(below.x, below.y, below.width, tone, label);
    for (n, (y, row)) in (below.y + 1..).zip(rows).enumerate() {
        canvas.text(below.x, y, 1, tone, if from + n == 0 { "›" } else { " " });
        canvas.text(below.x + 2, y, below.width.saturating_sub(2), Tone::Plain, row);
    }
    if field != Field::Buttons {
        let row = (wrapped.cursor.0 - from) as u16;
        canvas.set_cursor(below.x + 2 + wrapped.cursor.1 as u16, below.y + 1 + row);
    }
    let bottom = below.bottom().saturating_sub(1);
    match field {
        Field::Changes => {
            let keys = fitting_hints("enter ask for these changes · esc back", below.width.into());
            canvas.text(below.x, bottom, below.width, Tone::Dim, &keys);
        }
        Field::Instructions => {
            let keys = fitting_hints("enter approve with these · tab back", below.width.into());
            canvas.text(below.x, bottom, below.width, Tone::Dim, &keys);
        }
        _ => buttons(
            app,
            canvas,
            below,
            bottom,
            &[
                ("Approve", "⏎", '\n'),
                ("Ask for changes", "c", 'c'),
                ("Edit", "e", 'e'),
                ("Cancel", "esc", '\x1b'),
            ],
        ),
    }
}

/// The label of a button, the name of its key as shown, and the key.
type Button = (&'static str, &'static str, char);

fn confirmation(app: &App, action: &ConfirmedAction) -> (&'static str, &'static str, [Button; 2]) {
    match action {
        ConfirmedAction::Cancel(task) if app.model.runs.contains_key(task) => (
            "Stop this run?",
            "The agents' work so far is kept.",
            [("Keep it", "esc", '\x1b'), ("Stop it", "y", 'y')],
        ),
        ConfirmedAction::Cancel(_) => (
            "Stop this task?",
            "Its program is stopped; its output so far is kept.",
            [("Keep it", "esc", '\x1b'), ("Stop it", "y", 'y')],
        ),
        ConfirmedAction::End(_) => (
            "End this program?",
            "It has finished its turn. Its output so far is kept.",
            [("Keep it", "esc", '\x1b'), ("End it", "y", 'y')],
        ),
        ConfirmedAction::Retry(_) => (
            "Retry this task?",
            "It starts again and may cost again; the stages after it follow.",
            [("Leave it", "esc", '\x1b'), ("Retry it", "y", 'y')],
        ),
        ConfirmedAction::Leave(_) if app.options.workflow => (
            "Leave this workflow?",
            "The workflow stops; `althing resume` resumes it.",
            [("Stay", "esc", '\x1b'), ("Leave", "y", 'y')],
        ),
        ConfirmedAction::Leave(_) => (
            "Leave while agents work?",
            "What works now stops; it goes on when this session is opened again.",
            [("Stay", "esc", '\x1b'), ("Leave", "y", 'y')],
        ),
        ConfirmedAction::Undo(task) if !app.model.runs.contains_key(task) => (
            "Undo the last change of files?",
            "The files that the chat agent changed last are restored.",
            [("Leave them", "esc", '\x1b'), ("Restore them", "y", 'y')],
        ),
        ConfirmedAction::Undo(_) => (
            "Undo what this run wrote?",
            "The files that it changed are restored.",
            [("Leave them", "esc", '\x1b'), ("Restore them", "y", 'y')],
        ),
    }
}

/// The question of a confirmation as one line.
pub(crate) fn confirmation_text(app: &App, action: &ConfirmedAction) -> String {
    let (title, text, _) = confirmation(app, action);
    format!("{title} {text}")
}

/// The files that an undo restores or deletes. Files with a note, such as files that run code later, come first.
fn undone_files(app: &App, action: &ConfirmedAction, width: usize) -> Vec<Line> {
    let ConfirmedAction::Undo(run) = action else { return Vec::new() };
    let result = app.model.runs.get(run).and_then(|run| run.result.as_ref());
    let mut writes: Vec<_> = result.iter().flat_map(|result| &result.context_path_writes).collect();
    writes.sort_by_key(|write| write.note.is_none());
    let entry = |write: &&FileWrite| dialog::entry(&sanitize::line(&labels::file_write(write)), width, 2);
    writes.iter().flat_map(entry).collect()
}

/// The proposed change of one file: its name, and the changed lines.
fn edit_lines(file: &FileDiff, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for (n, text) in file.lines().iter().enumerate() {
        let tone = match text.as_bytes().first() {
            _ if n == 0 => Tone::Bold,
            Some(b'+') => Tone::Added,
            Some(b'-') => Tone::Removed,
            Some(b'@') => Tone::Accent,
            _ => Tone::Plain,
        };
        lines.extend(line::wrap_whole(tone, text, width, ROW_MARK));
    }
    lines
}

/// A dialog: the modal, its title, its text, and its buttons.
type Dialog<'a> = (&'a Modal, &'a str, Vec<Line>, &'a [Button]);

fn choose(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, (modal, title, lines, choices): Dialog<'_>) {
    let (below, _) = dialog::draw(app, canvas, area, (modal, title), &DialogText::whole(lines), 1);
    buttons(app, canvas, below, below.y, choices);
}

pub fn draw_small(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, modal: &Modal) {
    let width = dialog::text_width(area);
    let wrap = |text: &str| line::wrap_text(Tone::Plain, text, width);
    match modal {
        Modal::Budget { spent, budget, raised, .. } => {
            let raises =
                raised.map(|raised| format!(" Approving raises the limit to {}.", exact_money(raised)));
            let text = format!(
                "The session has spent {} of {}. Continuing may cost more.{}",
                exact_money(*spent),
                exact_money(*budget),
                raises.unwrap_or_default()
            );
            let choices = [("Approve", "⏎", '\n'), ("Cancel", "esc", '\x1b')];
            let title = if spent >= budget {
                "The budget is used up"
            } else {
                "The budget will probably be exceeded"
            };
            choose(app, canvas, area, (modal, title, wrap(&text), &choices));
        }
        Modal::EditApproval { preview, .. } => {
            let lines = preview.files.iter().flat_map(|file| edit_lines(file, width)).collect();
            let always = if width < 60 { "Always here" } else { "Always in this project" };
            let choices = [("Allow once", "⏎", '\n'), (always, "p", 'p'), ("Reject", "esc", '\x1b')];
            choose(app, canvas, area, (modal, "Change these files?", lines, &choices));
        }
        Modal::Trust { would } => {
            let lines = would.iter().flat_map(|line| dialog::entry(line, width, 2)).collect();
            let choices = [("Once", "o", 'o'), ("Always", "a", 'a'), ("Not at all", "esc", '\x1b')];
            choose(app, canvas, area, (modal, "Use what was found here?", lines, &choices));
        }
        Modal::Confirm(action) => {
            let (title, text, choices) = confirmation(app, action);
            let lines = [wrap(text), undone_files(app, action, width)].concat();
            choose(app, canvas, area, (modal, title, lines, &choices));
        }
        Modal::Interrupted { task, .. } => {
            let name = task.as_ref().and_then(|id| app.model.task(id)).map_or("A task", |task| &task.name);
            let text = format!("{name} was interrupted. Restart it, or mark it as failed?");
            let choices = [("Start over", "⏎", '\n'), ("Failed", "f", 'f'), ("Later", "esc", '\x1b')];
            choose(app, canvas, area, (modal, "A task was interrupted", wrap(&text), &choices));
        }
        Modal::Program { ask, task, chosen, .. } => {
            program_dialog::draw(app, canvas, area, modal, (ask, task.as_ref(), *chosen));
        }
        _ => {}
    }
}
