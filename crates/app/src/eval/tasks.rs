//! Reads a file of tasks with known solutions: one JSON object per line.

use crate::failure::Failure;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const MAX_BYTES: u64 = 256 << 20;

const MAX_REGEX_BYTES: usize = 1 << 20;

const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

const MAX_COMMAND_TIMEOUT: Duration = Duration::from_secs(600);

/// A task and how its answers are checked.
#[derive(Clone, Debug)]
pub struct EvalTask {
    /// The id, which is unique in the file.
    pub id: String,
    /// The text that a team is given.
    pub task: String,
    /// How an answer is checked.
    pub check: Check,
    /// The whole line, for a command that checks answers.
    pub line: Value,
}

/// How an answer is checked.
#[derive(Clone, Debug)]
pub enum Check {
    /// The conclusion, the last line or the whole answer is this text. Case, white space, the format of numbers, a
    /// final period and surrounding Markdown are ignored.
    Exact(String),
    /// The last number in the conclusion or, if it has none, in the answer is this number.
    Number(f64),
    /// The last letter that the conclusion or, if it names none, the answer names is this one; a longer choice is a word
    /// in the conclusion or the answer.
    Choice(String),
    /// The answer contains a match of this pattern.
    Regex(Box<Regex>),
    /// A shell command exits with status 0. It runs in the sandbox, in a directory with only `answer.txt` and
    /// `task.json`.
    Command {
        /// The command, for the shell.
        command: String,
        /// The time limit of the command.
        timeout: Duration,
    },
}

/// Reads the tasks of a file. An error lists all problems (at most 20 in full).
pub fn read_tasks(path: &Path) -> Result<Vec<EvalTask>, Failure> {
    let name = path.display();
    let hint = "a task is one line of JSON: {\"id\": \"sum\", \"task\": \"What is 2 + 2?\", \"check\": {\"number\": 4}}";
    let bytes = althing_disk::read_regular(path, MAX_BYTES)
        .map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")).hint(hint))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{name} is not UTF-8 text")).hint("save the file as UTF-8"))?;
    let (tasks, problems) = parse(&text);
    if !problems.is_empty() {
        let shown: Vec<&str> = problems.iter().take(20).map(String::as_str).collect();
        let more = problems.len().saturating_sub(shown.len());
        let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
        let message = format!("{name} cannot be used; nothing was started:\n  {}{more}", shown.join("\n  "));
        return Err(Failure::usage(message).hint(hint));
    }
    if tasks.is_empty() {
        return Err(Failure::usage(format!("{name} contains no task")).hint(hint));
    }
    Ok(tasks)
}

fn parse(text: &str) -> (Vec<EvalTask>, Vec<String>) {
    let (mut tasks, mut problems, mut ids) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match task(line) {
            Ok(task) if !ids.insert(task.id.clone()) => {
                problems.push(format!("line {number}: there is another task with the id `{}`", task.id));
            }
            Ok(task) => tasks.push(task),
            Err(problem) => problems.push(format!("line {number}: {problem}")),
        }
    }
    (tasks, problems)
}

fn task(line: &str) -> Result<EvalTask, String> {
    let line: Value = serde_json::from_str(line).map_err(|error| format!("this is not JSON: {error}"))?;
    let fields = line.as_object().ok_or("a task is a JSON object")?;
    let text = |key: &str| match fields.get(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
        Some(_) => Err(format!("`{key}` must be a text that is not empty")),
        None => Err(format!("`{key}` is missing")),
    };
    let check = match fields.get("check") {
        Some(Value::Object(check)) => check_of(check)?,
        Some(_) => return Err("`check` must be an object, such as {\"number\": 4}".into()),
        None => return Err("`check` is missing".into()),
    };
    Ok(EvalTask { id: text("id")?, task: text("task")?, check, line: line.clone() })
}

const KINDS: [&str; 5] = ["exact", "number", "choice", "regex", "command"];

fn check_of(check: &Map<String, Value>) -> Result<Check, String> {
    let named: Vec<(&String, &Value)> =
        check.iter().filter(|(key, _)| key.as_str() != "timeout_seconds").collect();
    let [(kind, value)] = named.as_slice() else {
        return Err(format!("`check` must have exactly one of: {}", KINDS.join(", ")));
    };
    let timeout = match check.get("timeout_seconds") {
        None => COMMAND_TIMEOUT,
        Some(seconds) => {
            let seconds = seconds
                .as_f64()
                .filter(|seconds| (0.1..=MAX_COMMAND_TIMEOUT.as_secs_f64()).contains(seconds));
            let seconds = seconds.ok_or("`timeout_seconds` must be a number from 0.1 to 600")?;
            Duration::from_secs_f64(seconds)
        }
    };
    let text = || match value {
        Value::String(text) if !text.trim().is_empty() => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(format!("`{kind}` must be a text that is not empty")),
    };
    match kind.as_str() {
        "exact" => Ok(Check::Exact(text()?)),
        "choice" => Ok(Check::Choice(text()?)),
        "number" => {
            let number = value.as_f64().or_else(|| super::checks::last_number(value.as_str()?));
            number.map(Check::Number).ok_or_else(|| "`number` must be a number".into())
        }
        "regex" => {
            let regex = RegexBuilder::new(&text()?).size_limit(MAX_REGEX_BYTES).build();
            regex.map(|regex| Check::Regex(Box::new(regex))).map_err(|error| format!("`regex`: {error}"))
        }
        "command" => {
            let words = value.as_array().map(|words| {
                let words: Option<Vec<String>> = words
                    .iter()
                    .map(|word| word.as_str().map(|word| althing_text::shell_word(word).into_owned()))
                    .collect();
                words.filter(|words| !words.is_empty()).map(|words| words.join(" "))
            });
            let command = match words {
                Some(words) => words.ok_or("`command` must be a list of texts, or a text for the shell")?,
                None => text()?,
            };
            Ok(Check::Command { command, timeout })
        }
        other => {
            let near =
                althing_text::did_you_mean(other, KINDS).map(|near| format!(" ({near})")).unwrap_or_default();
            Err(format!("there is no check `{other}`{near}; the checks are {}", KINDS.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_check_is_read() {
        let text = r#"
            {"id": "a", "task": "t", "check": {"exact": "Paris"}}
            {"id": "b", "task": "t", "check": {"number": 4}}
            {"id": "c", "task": "t", "check": {"choice": "B"}, "source": "other keys are allowed"}
            {"id": "d", "task": "t", "check": {"regex": "(?i)yes"}}
            {"id": "e", "task": "t", "check": {"command": ["grep", "-q", "two words", "answer.txt"], "timeout_seconds": 5}}
            {"id": "f", "task": "t", "check": {"command": "grep -q x answer.txt"}}
        "#;
        let (tasks, problems) = parse(text);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c", "d", "e", "f"]
        );
        let Check::Command { command, timeout } = &tasks[4].check else { panic!("not a command") };
        assert_eq!((command.as_str(), *timeout), ("grep -q 'two words' answer.txt", Duration::from_secs(5)));
    }

    #[test]
    fn every_bad_line_is_reported_with_its_number() {
        let text = "not json\n\n{\"id\": \"a\"}\n{\"id\": \"a\", \"task\": \"t\", \"check\": {\"nummer\": 1}}\n\
             {\"id\": \"a\", \"task\": \"t\", \"check\": {\"number\": 1}}\n{\"id\": \"a\", \"task\": \"t\", \"check\": {\"exact\": \"x\"}}\n\
             {\"id\": \"b\", \"task\": \"t\", \"check\": {\"regex\": \"(\"}}\n{\"id\": \"c\", \"task\": \"t\", \"check\": {\"exact\": \"x\", \"number\": 1}}";
        let (tasks, problems) = parse(text);
        assert_eq!(tasks.len(), 1);
        let starts =
            ["line 1: this is not JSON", "line 3: `check` is missing", "line 4: there is no check `nummer`"];
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.starts_with(start), "{problem}");
        }
        assert!(problems[2].contains("number"), "{}", problems[2]);
        assert_eq!(problems[3], "line 6: there is another task with the id `a`");
        assert!(problems[4].starts_with("line 7: `regex`: "), "{}", problems[4]);
        assert!(problems[5].starts_with("line 8: `check` must have exactly one of"), "{}", problems[5]);
    }
}
