//! Writes the offline model's texts from the words of the task. Templates only: they make no claim about the subject
//! that the task does not make.

use super::LABEL;
use super::prompt_input::{OfflinePromptInput, ShownAnswer};
use super::task::Task;
use althing_text::count;
use serde_json::json;
use std::cmp::Reverse;
use std::fmt::Write;

const SUMMED_UP: usize = 20;

/// There are three temperaments, so that three agents give three different answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temperament {
    /// Lists considerations and next steps, and refines its first answer once.
    Planner,
    /// Lists risks and checks.
    Skeptic,
    /// Lists steps, and the conditions under which the task counts as done.
    Builder,
}

impl Temperament {
    /// Chosen by the letter in `offline-a`, else by the name's characters. Each failed tool call moves to the next
    /// temperament, so that a rejected duplicate is not submitted again.
    pub(super) fn of(model: &str, errors: usize) -> Self {
        let letter = model.rsplit_once('-').map(|(_, letter)| letter).filter(|letter| letter.len() == 1);
        let base = match letter.and_then(|letter| letter.bytes().next()) {
            Some(letter @ b'a'..=b'z') => usize::from(letter - b'a'),
            Some(_) | None => model.bytes().map(usize::from).sum(),
        };
        match (base + errors) % 3 {
            0 => Self::Planner,
            1 => Self::Skeptic,
            _ => Self::Builder,
        }
    }

    fn opening(self, line: &str) -> String {
        match self {
            Self::Planner => format!("The task is: {line}."),
            Self::Skeptic => format!("Before anything is done about \"{line}\": what would make it fail?"),
            Self::Builder => format!("A first version of \"{line}\" can be begun at once."),
        }
    }

    pub(super) fn conclusion(self) -> &'static str {
        match self {
            Self::Planner => "choose by the considerations above, not by habit",
            Self::Skeptic => "settle the checks first; they decide the rest",
            Self::Builder => "begin small and learn from what runs",
        }
    }

    pub(super) fn refines(self) -> bool {
        match self {
            Self::Planner => true,
            Self::Skeptic | Self::Builder => false,
        }
    }
}

pub(super) fn plan(task: &Task<'_>) -> String {
    let subject = &task.subject;
    let plan = json!({"tasks": [
        {"id": "goal", "description": format!("Write down what must be true when \"{subject}\" is finished"),
         "depends_on": [], "verification": "someone else reads it and agrees"},
        {"id": "first-version", "description": format!("Make the smallest version of \"{subject}\" that runs from end to end"),
         "depends_on": ["goal"], "verification": "it handles one real case"},
        {"id": "check", "description": "Compare it with what must be true, and fix what is not",
         "depends_on": ["first-version"], "verification": "every point holds"},
    ]});
    format!("\n\n```json\n{plan:#}\n```")
}

pub(super) fn answer(task: &Task<'_>, temperament: Temperament, file: Option<&str>) -> String {
    let mut text = labeled();
    let subject = &task.subject;
    let _ = writeln!(text, "{}\n", temperament.opening(&task.line));
    write_options(&mut text, task, temperament);
    let sections: &[(&str, &[&str])] = match temperament {
        Temperament::Planner => &[
            (
                "Considerations",
                &[
                    "who needs it and how they will notice that it works",
                    "what it costs to set up, and what it costs to keep",
                    "what happens when it is wrong, slow or absent",
                ],
            ),
            (
                "Next steps",
                &[
                    "write down what must be true when it is finished",
                    "try the cheapest option on one real case",
                    "compare the results and decide",
                ],
            ),
        ],
        Temperament::Skeptic => &[
            (
                "Risks",
                &[
                    "the goal is understood differently by different people",
                    "the easy case is solved and the rare one is forgotten",
                    "nobody measures whether it got better",
                ],
            ),
            (
                "Checks",
                &[
                    "one example that must work",
                    "one example that must be refused",
                    "one number to look at before and after",
                ],
            ),
        ],
        Temperament::Builder => &[
            (
                "Steps",
                &[
                    "make the smallest version that runs from end to end",
                    "show it to someone who needs it",
                    "replace the weakest part, and repeat",
                ],
            ),
            (
                "Done when",
                &["it does what the task says, on a real case", "someone else can repeat it from the notes"],
            ),
        ],
    };
    for (title, points) in sections {
        write_section(&mut text, title, points);
    }
    if let Some(file) = file {
        let shown: String = file.lines().take(3).collect::<Vec<_>>().join("\n").chars().take(300).collect();
        let name = task.file.unwrap_or("the file");
        let _ = writeln!(text, "From {name} ({}):\n{shown}\n", count(file.lines().count() as u64, "line"));
    }
    let _ = write!(text, "In short, for \"{subject}\": {}.", temperament.conclusion());
    text
}

fn write_options(text: &mut String, task: &Task<'_>, temperament: Temperament) {
    if task.options.is_empty() {
        return;
    }
    text.push_str("Options:\n");
    let judgments: [&str; 3] = match temperament {
        Temperament::Planner => [
            "little to set up; fits while needs are small",
            "widely known; fits when the needs are ordinary",
            "most control; fits when the first two are outgrown",
        ],
        Temperament::Skeptic => [
            "fails first when the load or the team grows",
            "fails where your needs are unusual",
            "fails when nobody has time to keep it up",
        ],
        Temperament::Builder => [
            "can run today",
            "can run this week, after reading its manual",
            "can run later; begin it only with numbers in hand",
        ],
    };
    for (n, (option, judgment)) in task.options.iter().zip(judgments.iter().cycle()).enumerate() {
        let _ = writeln!(text, "{}. {option}: {judgment}.", n + 1);
    }
    text.push('\n');
}

fn write_section(text: &mut String, title: &str, points: &[&str]) {
    let _ = writeln!(text, "{title}:");
    for point in points {
        let _ = writeln!(text, "- {point}");
    }
    text.push('\n');
}

pub(super) fn refined(own: &ShownAnswer<'_>, prompt_input: &OfflinePromptInput<'_>) -> String {
    let mut text = labeled();
    text.push_str(unlabeled(own.text));
    text.push_str("\n\nAdded after reading the other answers:\n");
    let added = missing_points(own, prompt_input);
    if added.is_empty() {
        text.push_str("- nothing was missing; the points above stand\n");
    }
    for point in added {
        let _ = writeln!(text, "- {point}");
    }
    text.truncate(text.trim_end().len());
    text
}

pub(super) fn presentation(prompt_input: &OfflinePromptInput<'_>) -> Option<String> {
    let base = prompt_input.own.or_else(|| ranking(prompt_input).first().copied())?;
    let mut text = labeled();
    text.push_str(unlabeled(base.text));
    let more: Vec<&str> = missing_points(&base, prompt_input)
        .into_iter()
        .filter(|point| !base.text.contains(*point))
        .take(3)
        .collect();
    if !more.is_empty() {
        text.push_str("\n\nAlso worth keeping from the other answers:\n");
        for point in more {
            let _ = writeln!(text, "- {point}");
        }
    }
    text.truncate(text.trim_end().len());
    Some(text)
}

/// Best first: the most revised, then those with the most lines, then by the agent's number.
pub(super) fn ranking<'a>(prompt_input: &OfflinePromptInput<'a>) -> Vec<ShownAnswer<'a>> {
    let mut ranking = prompt_input.answers.clone();
    ranking.sort_by_key(|shown| (Reverse(shown.version), Reverse(shown.text.lines().count()), shown.agent));
    ranking
}

/// The agent's own answer is recognized by its opening: the order of the shown answers does not tell.
pub(super) fn own<'a>(
    prompt_input: &OfflinePromptInput<'a>,
    temperament: Temperament,
) -> Option<ShownAnswer<'a>> {
    let opening = temperament.opening(&Task::read(prompt_input.task).line);
    prompt_input.answers.iter().find(|shown| unlabeled(shown.text).starts_with(&opening)).copied()
}

fn missing_points<'a>(own: &ShownAnswer<'_>, prompt_input: &OfflinePromptInput<'a>) -> Vec<&'a str> {
    let others = prompt_input.answers.iter().filter(|shown| shown.agent != own.agent);
    let points = others.flat_map(|shown| {
        let points = shown.text.lines().filter_map(|line| line.strip_prefix("- "));
        points.filter(|point| !own.text.contains(*point)).take(2)
    });
    let mut chosen: Vec<&str> = Vec::new();
    for point in points {
        if !chosen.contains(&point) {
            chosen.push(point);
        }
    }
    chosen
}

pub(super) fn chat(message: &str, result: Option<&str>) -> String {
    let mut text = labeled();
    if let Some(result) = result {
        text.push_str(&outcome(result));
        return text;
    }
    let task = Task::read(message);
    let _ = write!(
        text,
        "You wrote: \"{}\". I only rearrange words, so I cannot know more about it than you told me. Ask for work \
         (\"Compare …\", \"Write …\", \"Build …\") and a run is proposed; or configure a model to talk to.",
        task.line
    );
    text
}

/// A result that does not parse is quoted.
fn outcome(result: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(result).unwrap_or_default();
    let field = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
    let answer = value.pointer("/execution/final_answer").and_then(serde_json::Value::as_str);
    match (answer.or(field("final_answer")), field("status"), field("error")) {
        (Some(answer), Some("completed") | None, _) => {
            format!("The run has ended. Its result:\n\n{}", unlabeled(answer))
        }
        (Some(answer), Some(status), error) => {
            let why = error.map(|error| format!(" ({error})")).unwrap_or_default();
            format!("The run is {status}{why}. Its answer so far:\n\n{}", unlabeled(answer))
        }
        (None, Some(status), error) => {
            format!("There is no result: {status}. {}", error.unwrap_or("No reason was given."))
        }
        (None, None, _) => format!("The run has ended. Its result:\n\n{}", unlabeled(result)),
    }
}

pub(super) fn summary(asked: &[&str]) -> String {
    let mut text = labeled();
    text.push_str("The user wrote, in this order:\n");
    let skipped = asked.len().saturating_sub(SUMMED_UP);
    for line in asked.iter().skip(skipped) {
        let short: String = line.lines().next().unwrap_or_default().chars().take(120).collect();
        let _ = writeln!(text, "- {short}");
    }
    if skipped > 0 {
        let _ = writeln!(text, "- and {}", count(skipped as u64, "earlier message"));
    }
    text.truncate(text.trim_end().len());
    text
}

fn labeled() -> String {
    format!("{LABEL}\n")
}

/// Removes the label, so that labels do not accumulate.
fn unlabeled(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(rest) = text.strip_prefix(LABEL) {
        text = rest.trim();
    }
    text
}
