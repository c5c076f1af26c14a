//! What a CLI agent says is stored, so a program decides how large the log and Althing's memory become. It is limited
//! in total, also for a program that pretends to be a CLI agent.

use super::support::launcher;
use althing_protocol::{Item, ProgramEnd, ProgramJob, ProgramReport, Programs, TaskId};
use althing_runner::adapter::{Adapters, UserDefinedAdapter};
use althing_runner::{AcceptedByUser, PatternTable, ProgramLimits, ProgramRunner, ProgramStarter, Sandbox};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

const MAX_ITEMS: usize = 50_000;
const MAX_BYTES: usize = 32 << 20;

/// A CLI agent's messages over a pipe: what it sends first, a message around `TEXT`, and its end with the message `bye`.
struct Format {
    adapter: &'static str,
    approvals: bool,
    first: &'static str,
    message: &'static str,
    last: &'static str,
}

const FORMATS: [Format; 7] = [
    Format {
        adapter: "claude",
        approvals: false,
        first: r#"cat > /dev/null; echo '{"type":"system","subtype":"init","session_id":"s-1"}'"#,
        message: r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"TEXT"}]}}"#,
        last: r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"bye","usage":{}}'"#,
    },
    Format {
        adapter: "codex",
        approvals: false,
        first: r#"cat > /dev/null; echo '{"type":"thread.started","thread_id":"s-1"}'"#,
        message: r#"{"type":"item.completed","item":{"type":"agent_message","text":"TEXT"}}"#,
        last: r#"echo '{"type":"item.completed","item":{"type":"agent_message","text":"bye"}}'
echo '{"type":"turn.completed","usage":{}}'"#,
    },
    Format {
        adapter: "gemini",
        approvals: false,
        first: r#"cat > /dev/null; echo '{"type":"init","session_id":"s-1"}'"#,
        message: r#"{"type":"message","role":"assistant","content":"TEXT"}
{"type":"tool_use","tool_name":"t","tool_id":"1","parameters":{}}"#,
        last: r#"echo '{"type":"message","role":"assistant","content":"bye"}'
echo '{"type":"result","status":"success"}'"#,
    },
    Format {
        adapter: "opencode",
        approvals: false,
        first: "cat > /dev/null",
        message: r#"{"type":"text","sessionID":"s-1","part":{"text":"TEXT"}}"#,
        last: r#"echo '{"type":"tool_use","sessionID":"s-1","part":{"tool":"t","state":{"status":"completed"}}}'
echo '{"type":"text","sessionID":"s-1","part":{"text":"bye"}}'
echo '{"type":"step_finish","sessionID":"s-1","part":{"reason":"stop"}}'"#,
    },
    Format {
        adapter: "claude",
        approvals: true,
        first: r#"read -r x; echo '{"type":"control_response","response":{"request_id":"initialize"}}'
read -r x; echo '{"type":"system","subtype":"init","session_id":"s-1"}'"#,
        message: r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"TEXT"}]}}"#,
        last: r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"bye","usage":{}}'"#,
    },
    Format {
        adapter: "codex",
        approvals: true,
        first: r#"read -r x; echo '{"id":1,"result":{}}'
read -r x; read -r x; echo '{"id":2,"result":{"thread":{"id":"s-1"}}}'
read -r x"#,
        message: r#"{"method":"item/completed","params":{"item":{"type":"agentMessage","text":"TEXT"}}}"#,
        last: r#"echo '{"method":"item/completed","params":{"item":{"type":"agentMessage","text":"bye"}}}'
echo '{"method":"turn/completed","params":{"turn":{"status":"completed"}}}'"#,
    },
    Format {
        adapter: "gemini",
        approvals: true,
        first: r#"read -r x; echo '{"id":1,"result":{}}'
read -r x; echo '{"id":2,"result":{"sessionId":"s-1"}}'
read -r x"#,
        message: r#"{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"TEXT"}}}}
{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"1"}}}"#,
        last: r#"echo '{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"bye"}}}}'
echo '{"id":3,"result":{"stopReason":"end_turn"}}'"#,
    },
];

pub(super) fn runner_with(dir: &Path, own: Vec<UserDefinedAdapter>) -> ProgramRunner {
    let starter = ProgramStarter {
        adapters: Adapters::with(own),
        launcher: launcher(),
        sandbox: Sandbox::Unconfined(AcceptedByUser::explicitly()),
        state_dir: Some(dir.join("state")),
        settings_dir: None,
        trusts_project_settings: false,
        limits: ProgramLimits::default(),
        output_masking: None,
    };
    ProgramRunner::new(Arc::new(starter), PatternTable::default())
}

pub(super) fn job(dir: &Path, (adapter, approvals): (&str, bool), script: &str) -> ProgramJob {
    let (program, cwd) = (dir.join("bin").join(adapter), dir.join("work"));
    for dir in [dir.join("bin"), cwd.clone()] {
        std::fs::create_dir_all(dir).unwrap();
    }
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spec = serde_json::json!({
        "adapter": adapter, "mode": "headless", "approvals": approvals, "prompt": "do it", "cwd": cwd,
        "env": { "PATH": format!("{}:/usr/bin:/bin", dir.join("bin").display()) },
    });
    let spec = serde_json::from_value(spec).unwrap();
    let dir = dir.join("task").to_string_lossy().into_owned();
    ProgramJob { task: TaskId::from("t"), attempt: 1, spec, resume: None, dir }
}

async fn reports_of((adapter, approvals): (&str, bool), script: &str) -> (ProgramEnd, Vec<ProgramReport>) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    run(&dir, &job(&dir, (adapter, approvals), script)).await
}

pub(super) async fn run(dir: &Path, job: &ProgramJob) -> (ProgramEnd, Vec<ProgramReport>) {
    run_in(&runner_with(dir, Vec::new()), job).await
}

pub(super) async fn run_in(runner: &ProgramRunner, job: &ProgramJob) -> (ProgramEnd, Vec<ProgramReport>) {
    let reports: Arc<Mutex<Vec<ProgramReport>>> = Arc::default();
    let sink = Arc::clone(&reports);
    let keep = move |report| {
        if !matches!(report, ProgramReport::Output { .. }) {
            sink.lock().unwrap().push(report);
        }
    };
    let end = runner.run(job, Arc::new(keep)).await;
    let reports = std::mem::take(&mut *reports.lock().unwrap());
    (end, reports)
}

fn stored(reports: &[ProgramReport]) -> (usize, usize) {
    let items = reports.iter().filter(|report| matches!(report, ProgramReport::Item(_)));
    let sizes = items.map(|item| format!("{item:?}").len());
    sizes.fold((0, 0), |(items, bytes), size| (items + 1, bytes + size))
}

pub(super) fn notices(reports: &[ProgramReport]) -> Vec<&str> {
    let mut texts = Vec::new();
    for report in reports {
        if let ProgramReport::Notice(notice) = report {
            texts.push(notice.text.as_str());
        }
    }
    texts
}

#[tokio::test]
async fn the_messages_of_a_cli_agent_are_limited_in_number_and_size() {
    for Format { adapter, approvals, first, message, last } in FORMATS {
        let many = message.replace("TEXT", "x");
        let large = message.replace("TEXT", &"w".repeat(100 * 1024));
        let is_first = adapter == FORMATS[0].adapter && !approvals;
        let floods = [("many", many, MAX_ITEMS + 5000), ("large", large, 400)];
        for (what, line, times) in floods.into_iter().filter(|(what, ..)| is_first || *what == "large") {
            let what = format!("{what} messages of {adapter}, approvals: {approvals}");
            let flood = format!("cat > line <<'END'\n{line}\nEND\nn=0\nwhile [ $n -lt {} ]", times / 100);
            let hundred = "cat line line line line line line line line line line > ten; \
                           cat ten ten ten ten ten ten ten ten ten ten; n=$((n+1))";
            let script = format!("{first}\n{flood}; do {hundred}; done\n{last}");
            let (end, reports) = reports_of((adapter, approvals), &script).await;
            assert!(end.ok, "{what}: {end:?}");
            assert_eq!(end.output, "bye", "{what}");
            let (items, bytes) = stored(&reports);
            assert!(
                items > 300 && items <= MAX_ITEMS + 2 && bytes < MAX_BYTES * 11 / 10,
                "{what}: {items} {bytes}"
            );
            let notices = notices(&reports);
            assert!(notices.len() == 1 && notices[0].contains("not stored"), "{what}: {notices:?}");
            let has = |wanted: fn(&Item) -> bool| {
                reports.iter().any(|report| matches!(report, ProgramReport::Item(item) if wanted(item)))
            };
            assert!(has(|item| matches!(item, Item::PromptSent { error: None, .. })), "{what}");
            assert!(has(|item| matches!(item, Item::Conversation { id } if id == "s-1")), "{what}");
        }
    }
}

#[tokio::test]
async fn troubles_and_questions_of_a_cli_agent_are_limited_in_number() {
    let troubles = "cat > /dev/null; n=0\nwhile [ $n -lt 1000 ]; do n=$((n+1))\n\
                    echo '{\"type\":\"error\",\"message\":\"trouble '$n'\"}'; done\n\
                    echo '{\"type\":\"turn.completed\",\"usage\":{}}'";
    let (end, reports) = reports_of(("codex", false), troubles).await;
    assert!(end.ok, "{end:?}");
    assert_eq!(notices(&reports).len(), 20);
    let questions = r#"read -r x; echo '{"id":1,"result":{}}'
read -r x; echo '{"id":2,"result":{"sessionId":"s-1"}}'
read -r x; n=0
while :; do n=$((n+1))
echo '{"id":'$n',"method":"session/request_permission","params":{"toolCall":{"title":"touch it"},"options":[]}}'
done"#;
    let (end, reports) = reports_of(("gemini", true), questions).await;
    assert!(!end.ok, "{end:?}");
    let asked = reports.iter().filter(|report| matches!(report, ProgramReport::Waiting(_))).count();
    assert_eq!(asked, 10_000);
    assert!(notices(&reports).iter().any(|text| text.contains("10000 questions")), "{:?}", notices(&reports));
}
