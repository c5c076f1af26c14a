//! Invalid workflow files: every problem with its position and a suggestion.

use std::fmt::Write as _;

use althing_config::{LoadPurpose, Style};
use althing_protocol::AGENT_KINDS;

use super::support::messages;
use super::workflow::read;

fn problems(text: &str) -> Vec<String> {
    let (file, report) = read(text, &[], LoadPurpose::Run);
    assert_eq!(file.is_some(), report.is_valid());
    messages(&report)
}

fn one(keys: &str) -> String {
    format!("goal: g\nstages:\n  - tasks:\n      - {{id: a, {keys}}}\n")
}

fn of(keys: &str) -> String {
    let found = problems(&one(keys));
    assert_eq!(found.len(), 1, "{keys}: {found:?}");
    let (place, rest) = found[0]
        .split_once(' ')
        .and_then(|(kind, rest)| {
            let (at, rest) = rest.split_once(' ')?;
            Some((format!("{kind} {at}"), rest.to_owned()))
        })
        .expect("a place");
    assert!(place.contains(" 4:"), "{place}");
    format!("{} {rest}", place.split(' ').next().unwrap_or_default())
}

// spec: core/execution-modes/headless-prompt-requirement
#[test]
fn a_headless_task_without_a_prompt_is_an_error_and_a_blank_one_is_only_for_commands() {
    let error = "Error stages[0].tasks[0].prompt | stages[0].tasks[0] is headless and needs `prompt` | ";
    let hint = "add `prompt: …`: nobody can be asked while the agent runs";
    assert_eq!(of("agent: claude, executionMode: headless"), format!("{error}{hint}"));
    assert_eq!(of("agent: claude, executionMode: headless, prompt: null"), format!("{error}{hint}"));
    assert_eq!(of("agent: writer, executionMode: headless"), format!("{error}{hint}"));
    let input = "add `prompt: …`, the command's input, or `prompt: \"\"` for none";
    assert_eq!(of("agent: command, command: [ls], execution_mode: headless"), format!("{error}{input}"));
    assert_eq!(
        of("agent: claude, executionMode: headless, prompt: '  '"),
        "Error stages[0].tasks[0].prompt | the prompt of a headless agent may not be blank | say what the agent should do"
    );
    for right in [
        "agent: command, command: [ls], executionMode: headless, prompt: ''",
        "agent: claude, executionMode: interactive",
        "agent: claude, executionMode: headless, prompt: p",
    ] {
        assert_eq!(problems(&one(right)), Vec::<String>::new(), "{right}");
    }
}

#[test]
fn a_problem_is_shown_with_a_caret_under_the_template() {
    let text = "\
goal: g
stages:
  - tasks:
      - {id: log, agent: claude, prompt: p}
  - tasks:
      - id: notes
        agent: claude
        prompt: |
          Write it,
          from {{lgo.output}}.
";
    let (_, report) = read(text, &[], LoadPurpose::Run);
    let expected = "\
error: no task is called `lgo`
  --> flows/release.yaml:10:16 (stages[1].tasks[0].prompt)
10 |           from {{lgo.output}}.
   |                ^^^^^^^^^^^^^^
   = help: did you mean `{{log.output}}`?
";
    assert_eq!(report.render(Style::Plain), expected);
}

#[test]
fn a_template_names_a_task_of_an_earlier_stage_or_the_goal() {
    let text = "\
stages:
  - tasks:
      - {id: a, agent: claude, prompt: 'x {{b.output}} {{a.output}}'}
      - {id: b, agent: claude, prompt: '{{c.output}}'}
  - tasks:
      - {id: c, run: {task: 'of {{a.output}}, {{a.result}}', context: '{{goal}} {{nobody.output}} {{a}} {{ .Text }}'}}
";
    let reported: Vec<String> = problems(text)
        .iter()
        .map(|line| line.trim_start_matches("Error ").replace("stages", "s").replace("tasks", "t"))
        .collect();
    assert_eq!(
        reported,
        [
            "3:43 s[0].t[0].prompt | `b` runs in the same stage: it has no output yet | move this task to a later stage",
            "3:56 s[0].t[0].prompt | `a` runs in the same stage: it has no output yet | move this task to a later stage",
            "4:41 s[0].t[1].prompt | `c` runs in a later stage: it has no output yet | move this task to a later stage",
            "6:47 s[1].t[0].run.task | a task has no `result` | its output is `{{a.output}}`",
            "6:72 s[1].t[0].run.context | `{{goal}}` is empty: the workflow has no `goal` | add `goal: …` at the top of the file",
            "6:81 s[1].t[0].run.context | no task is called `nobody` | t of earlier s: a, b",
            "6:99 s[1].t[0].run.context | `{{a}}` is not a template | a task's output is `{{a.output}}`",
        ]
    );
}

#[test]
fn an_unknown_agent_is_an_error_with_the_nearest_name() {
    assert_eq!(
        of("agent: clade, prompt: p"),
        "Error stages[0].tasks[0].agent | there is no agent or adapter `clade` | did you mean `claude`?"
    );
    assert_eq!(
        of("agent: wrter, prompt: p"),
        "Error stages[0].tasks[0].agent | there is no agent or adapter `wrter` | did you mean `writer`?"
    );
    let programs: Vec<&str> = AGENT_KINDS.iter().map(|row| row.adapter).collect();
    assert_eq!(
        of("agent: somebody-else, prompt: p"),
        format!(
            "Error stages[0].tasks[0].agent | there is no agent or adapter `somebody-else` | use one of: {}, command, writer, critic, coder",
            programs.join(", ")
        )
    );
    assert_eq!(
        of("run: {task: t, agents: [criticc, writer]}"),
        "Error stages[0].tasks[0].run.agents[0] | the config has no agent called `criticc` | did you mean `critic`?"
    );
}

#[test]
fn all_problems_of_a_file_are_reported_at_once_in_its_order() {
    let text = "\
nmae: x
stages:
  - name: one
    tasks:
      - {id: a b, agent: claude, prompt: p}
      - {id: c, agent: command, prompt: ''}
      - {id: c, agent: claude, executionMode: headles, prompt: p}
      - {agent: claude, prompt: p, timeout_seconds: 0}
  - tasks: []
  - tasks:
      - {id: d}
      - {id: e, agent: writer, run: {task: t}}
      - {id: f, agent: writer, executionMode: interactive, prompt: p}
      - {id: g, agent: command, command: [ls], prompt: '', env: {A=B: 1}, cwd: ~/x}
";
    assert_eq!(
        problems(text),
        [
            "Error 1:1 nmae | unknown key `nmae` | did you mean `name`?",
            "Error 5:14 stages[0].tasks[0].id | a task's id may contain only letters, digits, `-` and `_`, at most 64 characters | choose a name such as `review-1`",
            "Error 6:24 stages[0].tasks[1].command | `agent: command` needs `command` | add the program and its arguments: `command: [cargo, test]`",
            "Error 7:14 stages[0].tasks[2].id | two tasks are called `c`; the first is on line 6 | give each task a different id",
            "Error 7:47 stages[0].tasks[2].executionMode | `executionMode` cannot be the text \"headles\" | did you mean `headless`? possible: headless, interactive",
            "Error 8:9 stages[0].tasks[3].id | stages[0].tasks[3] needs `id` | add `id: …`: the task's id, unique in the workflow: letters, digits, `-` and `_`",
            "Error 8:53 stages[0].tasks[3].timeout_seconds | `timeout_seconds` must be greater than 0 and at most 31536000, not 0 | use a number greater than 0 and at most 31536000",
            "Error 9:12 stages[1].tasks | `tasks` is empty | add at least one",
            "Error 11:9 stages[2].tasks[0].agent | stages[2].tasks[0] needs `agent` or `run` | add `agent: …` for one agent, or `run: {task: …}` for a run of agents",
            "Error 12:32 stages[2].tasks[1].run | a task has `agent` or `run`, not both | split it into two tasks",
            "Error 13:47 stages[2].tasks[2].executionMode | `writer` is a model: there is no terminal to attach to | use `executionMode: headless`, or a CLI agent such as `claude`",
            "Error 14:66 stages[2].tasks[3].env | an environment variable cannot have this name or value | a name must not be empty or contain `=`; names and values must not contain NUL",
            "Error 14:80 stages[2].tasks[3].cwd | `~` is not expanded here | write `${HOME}` instead",
        ]
    );
}

#[test]
fn a_file_without_stages_says_what_it_needs() {
    assert_eq!(
        problems("name: x\n"),
        ["Error 1:1 stages | the file needs `stages` | add `stages: …`: the stages, in order"]
    );
    assert_eq!(problems("[1]").len(), 1);
    assert_eq!(problems("stages: []\n")[0], "Error 1:9 stages | `stages` is empty | add at least one");
}

#[test]
fn keys_without_effect_for_a_task_are_warnings() {
    let warning = |keys: &str| of(keys).replace("Warning stages[0].tasks[0].", "");
    assert_eq!(
        warning("agent: claude, prompt: p, command: [x]"),
        "command | `command` has no effect for an agent: it is for `agent: command` | remove the key"
    );
    assert_eq!(
        warning("run: {task: t}, sandbox: true"),
        "sandbox | `sandbox` has no effect for a run | remove the key"
    );
    assert_eq!(
        warning("agent: writer, prompt: p, cwd: x"),
        "cwd | `cwd` has no effect for an agent that is a model | remove the key"
    );
    assert_eq!(
        warning("agent: command, command: ['{{goal}}'], prompt: ''"),
        "command | templates in `command` are not filled in | pass the output to the command as its input: `prompt: \"{{id.output}}\"`"
    );
    assert_eq!(
        warning("agent: claude, prompt: p, env: {MY_TOKEN: canary-1234}"),
        "env | a secret is written here in plain text; it is lost when the workflow is resumed | put it into the environment and write `${VARIABLE}`"
    );
}

#[test]
fn runs_are_checked_like_launch_run() {
    assert!(
        of("run: {context: c}")
            .starts_with("Error stages[0].tasks[0].run.task | stages[0].tasks[0].run needs `task`")
    );
    assert!(of("run: {task: ' '}").contains("`task` is blank"));
    assert!(of("run: {task: t, agent_mode: single, agents: [writer, critic]}").contains("takes one agent"));
    assert!(of("run: {task: t, agents: []}").contains("`agents` is empty"));
    assert!(
        of("run: {task: t, coordination_overrides: {skip_voting: 3}}").contains("must be `true` or `false`")
    );
    assert!(
        of("run: {task: t, coordination_overrides: {skip_votin: true}}")
            .contains("did you mean `skip_voting`?")
    );
}

#[test]
fn adapters_are_checked_too() {
    let text = "\
stages: [{tasks: [{id: a, agent: tool, prompt: p}]}]
adapters:
  claude: {program: x}
  tool: {program: ' ', ready: '(', resume_args: ['{session}'], sesion: x}
  big: {program: x, ready: '(\\w{100}){100}'}
";
    assert_eq!(
        problems(text),
        [
            "Error 1:34 stages[0].tasks[0].agent | the adapter `tool` cannot run headless | add `headless_args` to `adapters.tool`, or use `executionMode: interactive`",
            "Error 3:3 adapters.claude | `claude` is a built-in adapter | choose another name",
            "Error 4:19 adapters.tool.program | `program` is blank | name the program to start",
            "Error 4:31 adapters.tool.ready | not a regular expression: unclosed group | escape special characters with a backslash, such as `\\(`",
            "Error 4:49 adapters.tool.resume_args | `{session}` in `resume_args` needs the key `session`, which finds the conversation's id | add `session: …`, a pattern that matches the output; its first group is the id",
            "Error 4:64 adapters.tool.sesion | unknown key `sesion` | did you mean `session`?",
            "Error 5:28 adapters.big.ready | the pattern is too large | use smaller repetitions than `x{1000}` or `\\w{200}`",
        ]
    );
}

#[test]
fn an_unset_variable_is_an_error_to_run_and_a_warning_to_check() {
    let text = one("agent: claude, prompt: p, env: {A: '${NOT_SET}'}");
    let (_, run) = read(&text, &[], LoadPurpose::Run);
    assert_eq!((run.errors.len(), run.warnings.len()), (1, 0));
    assert_eq!(run.errors[0].message, "the environment variable `NOT_SET` is not set");
    let (file, check) = read(&text, &[], LoadPurpose::Check);
    assert_eq!((file.is_some(), check.warnings.len()), (true, 1));
}

#[test]
fn a_secret_is_never_quoted() {
    let text = one("agent: claude, prompt: p, bogus: 1, env: {API_KEY: canary-0123456789}");
    let (_, report) = read(&text, &[], LoadPurpose::Run);
    assert!(!report.render(Style::Plain).contains("canary"), "{}", report.render(Style::Plain));
    assert!(report.secrets.iter().any(|secret| secret.reveal() == "canary-0123456789"));
}

#[test]
fn an_alias_bomb_is_rejected_as_for_configs() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        let _ = writeln!(bomb, "a{level}: &a{level} [{inner}]");
    }
    let last = problems(&bomb).pop().expect("an error");
    assert!(last.contains("after aliases are expanded"), "{last}");
    let patterns: String = (0..500).fold(String::new(), |mut out, n| {
        let _ = writeln!(out, "  t{n}: {{program: x, ready: '\\w{{40}}x{{{n}}}'}}");
        out
    });
    let found = problems(&format!(
        "stages: [{{tasks: [{{id: a, agent: t1, executionMode: interactive}}]}}]\nadapters:\n{patterns}"
    ));
    assert!(found.iter().any(|line| line.contains("at most 64 patterns")), "{}", found[0]);
}

#[test]
fn thousands_of_tasks_and_templates_take_linear_time() {
    let tasks: String = (0..2000).fold(String::new(), |mut out, n| {
        let _ = writeln!(out, "      - {{id: task-{n}, agent: wirter, prompt: p}}");
        out
    });
    let templates = "{{tsak-1.output}} ".repeat(20_000);
    let text = format!(
        "stages:\n  - tasks:\n{tasks}  - tasks:\n      - {{id: z, agent: claude, prompt: '{templates}'}}\n"
    );
    let report = super::hostile::in_time(|| read(&text, &[], LoadPurpose::Run).1);
    assert_eq!(report.errors.len(), 201);
    let text = format!("stages: [{{tasks: [{{id: a, agent: claude, prompt: '{templates}'}}]}}]");
    let report = super::hostile::in_time(|| read(&text, &[], LoadPurpose::Run).1);
    assert_eq!((report.errors[1].column, report.errors.len()), (69, 201));
}
