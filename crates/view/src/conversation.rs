//! A conversation as lines of text, for front ends without a screen: new lines, open questions, and how an input line
//! answers a question.

use crate::changed_files::ChangedFiles;
use crate::estimate::{cost_estimate, missing_sign_ins};
use crate::labels;
use crate::money::exact_money;
use crate::session::{EntryBody, Question, RunView, SessionView, TaskKind};
use crate::shown;
use althing_protocol::{
    ALWAYS_IN_PROJECT, AskKind, AskOption, Decision, EditPreview, FileDiff, InteractionId, InteractionKind,
    LaunchRun, Member, NoticeLevel, Op, Proposal, Seq, TaskId, TaskStatus,
};
use althing_text::ROW_MARK;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// For a script, replies are printed without a prefix, and most questions are answered with `y`, `n` or JSON.
    Script,
    /// For a person, most lines start with a label such as `You:`, and questions are answered with commands such as
    /// `/approve`.
    Person,
}

/// A piece of new output, which may span several lines of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationLine {
    /// A reply of the chat agent, or the final answer of a run. For a script, a run's final answer appears only if no
    /// chat agent summarizes the run.
    Reply(String),
    Notice(String),
    /// A status change of a run or program, files that the chat agent changed, or a compaction. For a person also the
    /// user's own message, a tool call of the chat agent, or the list of the files that a run changed.
    Progress(String),
    Question(String),
}

impl ConversationLine {
    /// The unsanitized text: it may contain anything that an agent wrote.
    pub fn text(&self) -> &str {
        match self {
            Self::Reply(text) | Self::Notice(text) | Self::Progress(text) | Self::Question(text) => text,
        }
    }
}

/// Produces the new lines of a session: conversation entries, questions, and status changes of runs and programs.
#[derive(Debug)]
pub struct ConversationLines {
    reader: Audience,
    /// The number of entries whose lines were already produced.
    entries: usize,
    asked: BTreeSet<InteractionId>,
    /// The indexes of the entries of tool calls that had no result yet.
    open_tools: Vec<usize>,
    /// The newest queued message that was reported.
    queued: Seq,
    statuses: BTreeMap<TaskId, &'static str>,
}

impl ConversationLines {
    pub fn new(reader: Audience) -> Self {
        let (asked, open_tools, statuses) = (BTreeSet::new(), Vec::new(), BTreeMap::new());
        Self { reader, entries: 0, asked, open_tools, queued: Seq(0), statuses }
    }

    pub fn updates(&mut self, session: &SessionView) -> Vec<ConversationLine> {
        let mut lines = Vec::new();
        for (at, entry) in session.entries.iter().enumerate().skip(self.entries) {
            lines.extend(self.entry(&entry.body, session));
            if matches!(entry.body, EntryBody::Tool { .. }) {
                self.open_tools.push(at);
            }
        }
        self.open_tools.retain(|at| match session.entries.get(*at).map(|entry| &entry.body) {
            Some(EntryBody::Tool { result: None, .. }) => true,
            Some(EntryBody::Tool { result: Some((_, false)), edits, .. }) if !edits.is_empty() => {
                let files: Vec<String> = edits.iter().map(FileDiff::summary).collect();
                lines.push(ConversationLine::Progress(format!("Changed {}", files.join(", "))));
                false
            }
            _ => false,
        });
        self.entries = session.entries.len();
        let waits_for = session.queue_waits_for().filter(|_| self.reader == Audience::Person);
        for message in session.queue.iter().filter(|message| message.seq > self.queued) {
            lines.extend(waits_for.map(|after| {
                ConversationLine::Progress(format!("Queued, delivered after this {after}: {}", message.text))
            }));
        }
        self.queued = session.queue.last().map_or(self.queued, |message| message.seq.max(self.queued));
        for run in session.runs.values().filter(|run| !run.is_subagent_run) {
            if self.is_new_status(&run.id, run.status_label()) {
                self.run(run, session, &mut lines);
            }
        }
        for task in session.tasks.iter().filter(|task| matches!(task.kind, TaskKind::Program { .. })) {
            if self.is_new_status(&task.id, task.status_label()) && task.status != TaskStatus::Pending {
                let why = task.why.as_ref().filter(|_| task.status == TaskStatus::Failed);
                let why = why.map(|why| format!(". {why}")).unwrap_or_default();
                lines.push(ConversationLine::Progress(format!(
                    "Task {}: {}{why}",
                    task.name,
                    task.status_label()
                )));
            }
        }
        for question in &session.questions {
            if self.asked.insert(question.interaction.id.clone()) {
                lines.push(ConversationLine::Question(ask(&question.interaction.kind, self.reader)));
            }
        }
        lines
    }

    fn is_new_status(&mut self, task: &TaskId, status: &'static str) -> bool {
        self.statuses.insert(task.clone(), status) != Some(status)
    }

    fn entry(&self, body: &EntryBody, session: &SessionView) -> Option<ConversationLine> {
        let script = self.reader == Audience::Script;
        Some(match body {
            EntryBody::Agent { text } if script => ConversationLine::Reply(text.trim_end().to_owned()),
            EntryBody::Agent { text } => ConversationLine::Reply(format!("Althing: {text}")),
            EntryBody::Final(run) if script => {
                let result = session.result(run).filter(|_| !session.is_summarized(run))?;
                let answer = result.final_answer.as_ref()?.trim_end();
                let footer = ChangedFiles::of(result).footer();
                let footer = footer.map(|footer| format!("\n\n{footer}")).unwrap_or_default();
                ConversationLine::Reply(format!("{answer}{footer}"))
            }
            EntryBody::Notice { level, text } => ConversationLine::Notice(notice(*level, text, script)),
            EntryBody::Compacted { what, .. } => {
                ConversationLine::Progress(if script { what.clone() } else { format!("Note: {what}") })
            }
            EntryBody::User { text, .. } if !script => ConversationLine::Progress(format!("You: {text}")),
            EntryBody::Tool { name, .. } if !script => {
                ConversationLine::Progress(format!("Althing uses {name}."))
            }
            EntryBody::Rejected { task, .. } if !script => {
                let task = task.lines().next().unwrap_or_default();
                ConversationLine::Progress(format!("Run: {task}  Not started: rejected"))
            }
            EntryBody::Stopped { .. } if !script => ConversationLine::Progress("Stopped by you.".to_owned()),
            _ => return None,
        })
    }

    fn run(&self, run: &RunView, session: &SessionView, lines: &mut Vec<ConversationLine>) {
        let task = run.task.lines().next().unwrap_or_default();
        let summary = run.result.as_ref().map(|result| format!("  {}", labels::run_summary(run, result)));
        let summary = summary.unwrap_or_default();
        lines.push(ConversationLine::Progress(format!("Run: {task}  {}{summary}", run.status_label())));
        let Some(result) = &run.result else { return };
        let script = self.reader == Audience::Script;
        let files = ChangedFiles::of(result);
        if let Some(note) = files.note() {
            lines.push(ConversationLine::Notice(notice(NoticeLevel::Info, &note, script)));
        }
        if script {
            // If the answer itself is printed, the footer is below it.
            let mut bodies = session.entries.iter().map(|entry| &entry.body);
            let is_printed = bodies.any(|body| matches!(body, EntryBody::Final(id) if *id == run.id));
            let is_printed = is_printed && !run.is_summarized;
            let footer = files.footer().filter(|_| !is_printed);
            lines.extend(footer.map(ConversationLine::Notice));
            return;
        }
        if let Some(answer) = &result.final_answer {
            lines.push(ConversationLine::Reply(format!("Final answer: {answer}")));
        }
        if let Some(footer) = files.footer() {
            lines.push(ConversationLine::Progress(footer));
        }
    }
}

fn notice(level: NoticeLevel, text: &str, script: bool) -> String {
    let line = format!("{}: {text}", labels::notice_level(level));
    if script { line } else { capitalized(&line) }
}

const LAUNCH_QUESTION: &str = "launch this run?";

/// What a person must know to approve a run, as pairs of name and value without empty values.
fn proposal_details(proposal: &Proposal) -> Vec<(&'static str, String)> {
    let proposal = &shown::proposal(proposal);
    let members: Vec<&Member> = proposal.members.iter().collect();
    let agents: Vec<&str> = members.iter().map(|member| member.id.as_str()).collect();
    let mut details = vec![
        ("Task", proposal.launch.task.clone()),
        ("Context", proposal.launch.context.clone().unwrap_or_default()),
        ("Agents", agents.join(", ")),
        ("Modes", labels::proposed_modes(proposal)),
        ("Prompts", labels::added_prompts(&proposal.launch)),
        ("Rules", labels::changed_rules(&proposal.launch)),
        ("Reads", proposal.may_read.join(", ")),
        ("May write", proposal.writes_text()),
        ("Cost", cost_estimate(proposal, &proposal.launch, &members).unwrap_or_default()),
        ("Sign-in", missing_sign_ins(proposal, &members).unwrap_or_default()),
    ];
    details.retain(|(_, value)| !value.is_empty());
    details
}

/// The further lines of a detail are marked, so that none looks like a row of ours.
fn title_and_details(title: &str, details: &[(&str, String)]) -> String {
    let rows = details.iter().map(|(key, value)| {
        let value = value.replace('\n', &format!("\n        {ROW_MARK}"));
        format!("\n  {key:9} {value}")
    });
    [title.to_owned()].into_iter().chain(rows).collect()
}

/// The question whether a run may be launched, without instructions for answering: for a program that has its own way
/// to answer.
pub fn launch_question(proposal: &Proposal) -> String {
    title_and_details(&capitalized(LAUNCH_QUESTION), &proposal_details(proposal))
}

/// `kind` is a question as [`shown::interaction`] returns it.
pub fn ask(kind: &InteractionKind, reader: Audience) -> String {
    let (yes_or_no, mut details) = match reader {
        Audience::Script => ("y or n", Vec::new()),
        Audience::Person => ("Write /approve or /reject.", Vec::new()),
    };
    let (title, how) = match kind {
        InteractionKind::RunApproval { proposal } => {
            details = proposal_details(proposal);
            let how = match reader {
                Audience::Script => "y approve, n cancel, or the changed run as JSON",
                Audience::Person => yes_or_no,
            };
            (LAUNCH_QUESTION.to_owned(), how.to_owned())
        }
        InteractionKind::PlanApproval { plan, preview } => {
            details.push(("Tasks", preview.join("; ")));
            let how = match reader {
                Audience::Script => "y or n, or /approve and instructions to add",
                Audience::Person => "Write /approve, /approve and instructions to add, or /reject.",
            };
            (format!("execute the plan {}?", plan.path), how.to_owned())
        }
        InteractionKind::EditApproval { preview, .. } => {
            let changes: Vec<String> = preview.files.iter().flat_map(FileDiff::lines).collect();
            details.push(("Changes", changes.join("\n")));
            ("change these files?".to_owned(), how_to_allow(preview, reader))
        }
        InteractionKind::WinnerOverride { winner, candidates } => {
            let names: Vec<&str> = candidates.iter().map(|one| one.agent.as_str()).collect();
            let how = format!(
                "Write /approve to keep the winner, or /present NAME to choose who presents the final answer: {}.",
                names.join(", ")
            );
            let nobody_voted = candidates.iter().all(|one| one.votes == 0);
            let title = if nobody_voted { "was chosen; nobody voted" } else { "won the vote" };
            (format!("{winner} {title}."), how)
        }
        InteractionKind::Budget { spent_micro_usd, budget_micro_usd, raised_micro_usd } => {
            let (spent, budget) = (exact_money(*spent_micro_usd), exact_money(*budget_micro_usd));
            let limit = if spent_micro_usd >= budget_micro_usd {
                format!("its budget of {budget} is spent")
            } else {
                format!("going on will probably exceed its budget of {budget}")
            };
            let raised =
                raised_micro_usd.map(|raised| format!(" Yes raises the limit to {}.", exact_money(raised)));
            let question =
                format!("this session has cost {spent}; {limit}. Go on?{}", raised.unwrap_or_default());
            (question, yes_or_no.to_owned())
        }
        InteractionKind::Program(ask) if ask.options.is_empty() => {
            (ask.text.clone(), "Write /type and the text to type into the program's terminal.".to_owned())
        }
        InteractionKind::Program(ask) => {
            let options = ask.options.iter().enumerate();
            let options: Vec<String> = options.map(|(n, one)| format!("{}: {}", n + 1, one.label)).collect();
            (ask.text.clone(), format!("Write /answer and a number. {}", options.join(", ")))
        }
        InteractionKind::Interrupted => (
            "a task was interrupted. Restart it, or let it count as failed?".to_owned(),
            yes_or_no.to_owned(),
        ),
    };
    // The further lines of a text are marked, so that none looks like a line of ours.
    let further = format!("\n{ROW_MARK}");
    match reader {
        Audience::Script => {
            let how = how.replace('\n', &further);
            // The words of a program, such as a command, are not changed.
            let is_ours = !matches!(kind, InteractionKind::Program(_));
            let title = if is_ours { capitalized(&title) } else { title };
            format!("{}\n  {how}", title_and_details(&title.replace('\n', &further), &details))
        }
        Audience::Person => {
            let marked = |text: &str| text.replace('\n', &further);
            let details = details.iter().map(|(key, value)| format!("{key}: {}.", marked(value)));
            let parts: Vec<String> =
                [marked(&title)].into_iter().chain(details).chain([marked(&how)]).collect();
            format!("Question: {}", parts.join(" "))
        }
    }
}

fn how_to_allow(preview: &EditPreview, reader: Audience) -> String {
    match reader {
        Audience::Script => format!("y once, always (in {}), or n", preview.project),
        Audience::Person => format!("Write /approve (once), /always (in {}) or /reject.", preview.project),
    }
}

/// The op that an input line submits as the answer to an open question; None if the line is not an answer.
pub fn answer(question: &Question, line: &str) -> Option<Op> {
    let (line, kind) = (line.trim(), &question.interaction.kind);
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    // A bare word such as `y` is an answer only if it is the whole line. It never answers an override window, which
    // closes by itself and accepts only commands.
    let overrides = matches!(kind, InteractionKind::WinnerOverride { .. });
    let alone = if overrides { String::new() } else { line.to_lowercase() };
    let decision = match (word, alone.as_str(), kind) {
        ("/approve" | "/yes", ..) | (_, "y" | "yes", _) if asks_permission(kind) => {
            choice(kind, &["yes", "allow", "approve", "accept"])?
        }
        ("/reject" | "/no", ..) | (_, "n" | "no", _) if asks_permission(kind) => {
            choice(kind, &["no", "deny", "reject", "decline", "cancel"])?
        }
        ("/approve" | "/yes", ..) | (_, "y" | "yes" | "a" | "approve", _) => match approval(kind) {
            Decision::Approve { digest, edited, .. } => {
                let instructions = Some(rest.to_owned()).filter(|words| !words.is_empty());
                Decision::Approve { digest, edited, instructions }
            }
            decision => decision,
        },
        ("/always", ..) | (_, "always", _) if matches!(kind, InteractionKind::EditApproval { .. }) => {
            Decision::Choose { option: ALWAYS_IN_PROJECT.to_owned() }
        }
        ("/reject" | "/no", ..) | (_, "n" | "no" | "c" | "cancel", _) => Decision::Reject { reason: None },
        ("/present", _, InteractionKind::WinnerOverride { .. }) => Decision::Presenter { agent: rest.into() },
        ("/answer", _, InteractionKind::Program(ask)) => {
            let number: usize = rest.parse().ok()?;
            Decision::Choose { option: ask.options.get(number.checked_sub(1)?)?.id.clone() }
        }
        ("/type", _, InteractionKind::Program(_)) => {
            let task = question.task.clone()?;
            return Some(Op::Input { task, bytes: format!("{rest}\r").into_bytes() });
        }
        // A JSON line replaces the proposed run; the replacement is what runs.
        (_, _, InteractionKind::RunApproval { proposal }) => {
            let launch: LaunchRun = serde_json::from_str(line).ok()?;
            let digest = Some(proposal.digest.clone());
            Decision::Approve { digest, edited: Some(Box::new(launch)), instructions: None }
        }
        _ => return None,
    };
    Some(Op::Answer { interaction: question.interaction.id.clone(), decision })
}

fn asks_permission(kind: &InteractionKind) -> bool {
    matches!(kind, InteractionKind::Program(ask) if ask.about == AskKind::Permission && !ask.options.is_empty())
}

/// The first option of a program's question whose first word is one of these; None if there is none, because then it is
/// not clear what yes or no means.
fn choice(kind: &InteractionKind, words: &[&str]) -> Option<Decision> {
    let InteractionKind::Program(ask) = kind else { return None };
    let fits = |option: &&AskOption| {
        let label = option.label.to_lowercase();
        label.split(|c: char| !c.is_alphanumeric()).next().is_some_and(|first| words.contains(&first))
    };
    Some(Decision::Choose { option: ask.options.iter().find(fits)?.id.clone() })
}

/// Approves exactly what was shown: the digest ties the approval of a run to its proposal, and in an override window
/// the winner is confirmed.
pub fn approval(kind: &InteractionKind) -> Decision {
    let digest = match kind {
        InteractionKind::WinnerOverride { .. } => return Decision::Continue,
        InteractionKind::RunApproval { proposal } => Some(proposal.digest.clone()),
        InteractionKind::EditApproval { preview, .. } => Some(preview.digest.clone()),
        _ => None,
    };
    Decision::Approve { digest, edited: None, instructions: None }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
