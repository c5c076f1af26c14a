//! Lays a report out as blocks.

use super::agent::{AgentReport, AnswerReport};
use super::block::Block;
use super::run::{FilePlace, RunReport};
use super::{SessionReport, Warning};
use crate::labels;
use althing_protocol::{AgentId, AnswerLabel, FileWrite, Millis, SessionKind};
use althing_text::{count, shell_word, short_number};

pub fn run_blocks(run: &RunReport) -> Vec<Block> {
    let mut blocks = vec![heading(1, format!("Run {}", run.run_id))];
    blocks.extend(run_sections(run, 2));
    blocks
}

pub fn session_blocks(report: &SessionReport) -> Vec<Block> {
    let mut blocks = vec![heading(1, format!("Session {}", report.session)), session_fields(report)];
    if report.kind == SessionKind::Chat {
        blocks.push(heading(2, "Conversation".into()));
        for message in &report.conversation {
            let when = message.at.to_string();
            if let Some(run) = &message.run {
                blocks.push(Block::Paragraph(format!("{when} run {run}: {}", message.text)));
            } else {
                blocks.push(Block::Paragraph(format!("{when} {}:", message.who)));
                blocks.push(Block::Quote(message.text.clone()));
            }
        }
    }
    if !report.tasks.is_empty() {
        blocks.push(heading(2, "Tasks".into()));
        blocks.push(tasks_table(report));
        for task in report.tasks.iter().filter(|task| !task.output.trim().is_empty()) {
            blocks.push(heading(3, format!("Output of {}", task.id)));
            blocks.push(Block::Quote(task.output.trim_end().to_owned()));
        }
    }
    let alone = report.kind == SessionKind::Run && report.runs.len() == 1;
    for run in &report.runs {
        let level = if alone { 2 } else { 3 };
        if !alone {
            let what = if run.is_subagent { "Subagent run" } else { "Run" };
            blocks.push(heading(2, format!("{what} {}", run.run_id)));
        }
        blocks.extend(run_sections(run, level));
    }
    warnings(&mut blocks, 2, "Warnings of the session", &report.warnings);
    blocks.push(heading(2, "Files of the session".into()));
    blocks.push(files(&report.files));
    blocks
}

fn session_fields(report: &SessionReport) -> Block {
    let kind = match report.kind {
        SessionKind::Run => "run",
        SessionKind::Workflow => "workflow",
        SessionKind::Chat => "conversation",
    };
    let mut fields = vec![
        ("goal", report.goal.clone()),
        ("kind", kind.to_owned()),
        ("from", report.started.to_string()),
        ("to", report.updated.to_string()),
        ("directory", report.directory.clone()),
    ];
    fields.extend(report.project.clone().map(|project| ("project", project)));
    fields.push(("config", report.config.clone()));
    if report.kind != SessionKind::Run || report.runs.len() != 1 {
        fields.push(("used", report.usage.line()));
    }
    fields.push(("events", report.events.to_string()));
    if report.kind == SessionKind::Chat && report.usage != report.chat_usage {
        fields.push(("chat agent", report.chat_usage.line()));
    }
    Block::Fields(fields)
}

fn tasks_table(report: &SessionReport) -> Block {
    let rows = report.tasks.iter().map(|task| {
        vec![
            task.stage.clone().unwrap_or_default(),
            task.id.clone(),
            task.runs.clone(),
            task.status.to_owned(),
            task.duration.map_or_else(String::new, |time| time.to_string()),
            task.usage.cost(),
            task.error.clone().unwrap_or_default(),
        ]
    });
    Block::Table {
        head: vec!["stage", "task", "runs", "status", "time", "cost", "error"],
        rows: rows.collect(),
    }
}

fn heading(level: usize, text: String) -> Block {
    Block::Heading { level, text }
}

fn run_sections(run: &RunReport, level: usize) -> Vec<Block> {
    let mut blocks = vec![run_fields(run), heading(level, "Task".into()), Block::Quote(run.task.clone())];
    if let Some(context) = &run.context {
        blocks.push(heading(level + 1, "Background".into()));
        blocks.push(Block::Quote(context.clone()));
    }
    blocks.push(heading(level, "Decision".into()));
    blocks.push(Block::List(run.decision.words.clone()));
    if !run.decision.ballots.is_empty() {
        blocks.push(ballots(run));
    }
    blocks.push(heading(level, "Final answer".into()));
    blocks.push(match &run.final_answer {
        Some(answer) => Block::Quote(answer.clone()),
        None => Block::Paragraph("There is no final answer.".into()),
    });
    if let (Some(diff), Some(author)) = (&run.final_diff, &run.decision.presenter) {
        blocks.push(heading(
            level + 1,
            format!("What the final answer changed in the newest answer of {author}"),
        ));
        blocks.push(Block::Diff(diff.clone()));
    }
    blocks.push(heading(level, "Files changed".into()));
    blocks.extend(changes(run));
    blocks.push(heading(level, "Agents".into()));
    blocks.push(agents(run));
    for agent in &run.agents {
        blocks.extend(agent_blocks(run, agent, level + 1));
    }
    blocks.push(heading(level, "Timeline".into()));
    blocks.push(timeline(run));
    warnings(&mut blocks, level, "Warnings", &run.warnings);
    blocks.push(heading(level, "Where everything lies".into()));
    blocks.push(files(&run.files));
    blocks
}

fn run_fields(run: &RunReport) -> Block {
    let agents = count(run.agents.len() as u64, "agent");
    let rounds = count(run.rounds.into(), "round");
    let mut fields = vec![
        ("status", format!("{} · {agents} · {rounds} · {}", run.status, run.duration)),
        ("modes", labels::modes(run.modes)),
        ("rules", run.rules.join(" ")),
        ("began", run.started.to_string()),
        ("used", run.usage.line()),
    ];
    if let Some(plan) = &run.plan {
        fields.push(("plan", plan.clone()));
    }
    if let Some(follow_up) = &run.follow_up {
        fields.push(("executed by", follow_up.clone()));
    }
    for path in &run.context_paths {
        let access = if path.writable { "the presenter may write" } else { "read only" };
        fields.push(("context path", format!("{} ({access})", path.path)));
    }
    Block::Fields(fields)
}

fn ballots(run: &RunReport) -> Block {
    let rows = run.decision.ballots.iter().map(|ballot| {
        let counted = match ballot.not_counted_because {
            _ if ballot.counted => "yes".to_owned(),
            Some(why) => format!("no: {why}"),
            None => "no".to_owned(),
        };
        // Reasons name agents as the voter knew them.
        let named = |id: &AgentId| match run.agents.iter().find(|agent| agent.id == *id) {
            Some(agent) => format!("{} ({})", agent.id, agent.anonymous),
            None => id.to_string(),
        };
        let choices =
            if ballot.ranking.is_empty() { std::slice::from_ref(&ballot.target) } else { &ballot.ranking };
        let choices: Vec<String> = choices.iter().map(named).collect();
        vec![ballot.voter.to_string(), choices.join(" > "), counted, ballot.reason.clone()]
    });
    Block::Table { head: vec!["voter", "votes for", "counted", "reason"], rows: rows.collect() }
}

fn changes(run: &RunReport) -> Vec<Block> {
    if run.context_path_writes.is_empty() {
        let text = if run.unchanged_paths.is_empty() {
            "No changes outside the run's workspaces were recorded.".to_owned()
        } else {
            format!("Nothing was changed, although {} could be written.", run.unchanged_paths.join(", "))
        };
        return vec![Block::Paragraph(text)];
    }
    let undo =
        format!("`althing undo {0} --diff` shows the changes; `althing undo {0}` reverts them.", run.run_id);
    let writes: Vec<String> =
        run.context_path_writes.iter().map(|write: &FileWrite| labels::file_write(write)).collect();
    vec![Block::List(writes), Block::Paragraph(undo)]
}

fn time(time: Option<Millis>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| time.to_string())
}

fn agents(run: &RunReport) -> Block {
    let rows = run.agents.iter().map(|agent| {
        let model = if agent.offline { "offline model, not an AI".to_owned() } else { model(agent) };
        let first = agent.attempts.iter().find_map(|attempt| attempt.first_token);
        vec![
            agent.id.to_string(),
            agent.anonymous.clone(),
            model,
            agent.status.clone(),
            agent.answers.len().to_string(),
            agent.usage.calls.to_string(),
            short_number(agent.usage.input_tokens),
            short_number(agent.usage.output_tokens),
            agent.usage.cost(),
            agent.time.to_string(),
            time(first),
        ]
    });
    let head = vec![
        "agent",
        "known as",
        "model",
        "outcome",
        "answers",
        "calls",
        "tokens in",
        "tokens out",
        "cost",
        "time",
        "first token",
    ];
    Block::Table { head, rows: rows.collect() }
}

fn model(agent: &AgentReport) -> String {
    if agent.model.is_empty() || agent.model == agent.backend {
        agent.backend.clone()
    } else {
        format!("{} {}", agent.backend, agent.model)
    }
}

fn agent_blocks(run: &RunReport, agent: &AgentReport, level: usize) -> Vec<Block> {
    let title = format!("{} (task {}, shown to the others as {})", agent.id, agent.task, agent.anonymous);
    let mut blocks = vec![heading(level, title)];
    if let Some(error) = &agent.error {
        blocks.push(Block::Paragraph(format!("{}: {error}", agent.status)));
    }
    let rows = agent.attempts.iter().map(|attempt| {
        vec![
            attempt.attempt.to_string(),
            attempt.activity.to_owned(),
            saw(&attempt.saw),
            attempt.usage.calls.to_string(),
            short_number(attempt.usage.input_tokens),
            short_number(attempt.usage.output_tokens),
            attempt.usage.cost(),
            time(attempt.time),
            time(attempt.first_token),
            attempt.outcome.clone().unwrap_or_else(|| "not over".into()),
        ]
    });
    let head = vec![
        "attempt",
        "doing",
        "saw",
        "calls",
        "tokens in",
        "tokens out",
        "cost",
        "time",
        "first token",
        "outcome",
    ];
    blocks.push(Block::Table { head, rows: rows.collect() });
    let id = shell_word(agent.id.as_str());
    let prompt = format!("`althing sessions prompt {} {id}` shows what it was sent.", run.run_id);
    blocks.push(Block::Paragraph(prompt));
    for answer in &agent.answers {
        blocks.extend(answer_blocks(run, answer, level + 1));
    }
    blocks
}

fn saw(labels: &[AnswerLabel]) -> String {
    labels.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn answer_blocks(run: &RunReport, answer: &AnswerReport, level: usize) -> Vec<Block> {
    let after = answer.at.since(run.started);
    let mut blocks = vec![heading(level, format!("Answer {}, after {after}", answer.label))];
    blocks.extend(answer.snapshot.as_ref().map(|path| Block::Paragraph(format!("Its files: {path}"))));
    blocks.push(Block::Quote(answer.content.clone()));
    if let Some(diff) = &answer.diff {
        blocks.push(heading(level + 1, "What changed since the last answer".into()));
        blocks.push(Block::Diff(diff.clone()));
    }
    blocks
}

fn timeline(run: &RunReport) -> Block {
    let rows =
        run.timeline.iter().map(|line| vec![line.after.to_string(), line.who.clone(), line.what.clone()]);
    Block::Table { head: vec!["after", "who", "what"], rows: rows.collect() }
}

fn warnings(blocks: &mut Vec<Block>, level: usize, title: &str, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    blocks.push(heading(level, title.to_owned()));
    let one = |warning: &Warning| {
        let text = format!("{}: {}", labels::notice_level(warning.level), warning.text);
        labels::with_hint(text, warning.hint.as_deref())
    };
    blocks.push(Block::List(warnings.iter().map(one).collect()));
}

fn files(places: &[FilePlace]) -> Block {
    let rows = places.iter().map(|place| vec![place.what.clone(), place.path.clone()]);
    Block::Table { head: vec!["what", "path"], rows: rows.collect() }
}
