//! A program decides which conversation id it reports, and the author of a found session which id its log has. The id
//! becomes an argument of the CLI agent, so one that could be an option is refused.

use super::message_floods::{job, notices, run};
use althing_protocol::{
    ExecutionMode, Item, ProgramJob, ProgramReport, ResumedConversation, TaskId, TurnProgress,
};

const OPTION: &str = "--mcp-config={\"mcpServers\":{}}";

fn conversations(reports: &[ProgramReport]) -> Vec<&str> {
    let mut ids = Vec::new();
    for report in reports {
        if let ProgramReport::Item(Item::Conversation { id }) = report {
            ids.push(id.as_str());
        }
    }
    ids
}

#[tokio::test]
async fn a_reported_conversation_id_that_could_be_an_option_is_refused() {
    let id = OPTION.replace('"', "\\\"");
    let claude = format!(
        r#"cat > /dev/null; echo '{{"type":"system","subtype":"init","session_id":"{id}"}}'
echo '{{"type":"result","subtype":"success","is_error":false,"result":"bye","usage":{{}}}}'"#
    );
    let codex = format!(
        r#"cat > /dev/null; echo '{{"type":"thread.started","thread_id":"{id}"}}'
echo '{{"type":"item.completed","item":{{"type":"agent_message","text":"bye"}}}}'
echo '{{"type":"turn.completed","usage":{{}}}}'"#
    );
    let gemini = format!(
        r#"cat > /dev/null; echo '{{"type":"init","session_id":"{id}"}}'
echo '{{"type":"message","role":"assistant","content":"bye"}}'
echo '{{"type":"result","status":"success"}}'"#
    );
    let opencode = format!(
        r#"cat > /dev/null; echo '{{"type":"text","sessionID":"{id}","part":{{"text":"bye"}}}}'
echo '{{"type":"step_finish","part":{{"reason":"stop"}}}}'"#
    );
    for (adapter, script) in
        [("claude", claude), ("codex", codex), ("gemini", gemini), ("opencode", opencode)]
    {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (end, reports) = run(&dir, &job(&dir, (adapter, false), &script)).await;
        assert!(end.ok && end.output == "bye", "{adapter}: {end:?}");
        assert_eq!(conversations(&reports), [""; 0], "{adapter}");
        let notices = notices(&reports);
        assert!(notices.iter().any(|text| text.contains("conversation id")), "{adapter}: {notices:?}");
    }
}

#[tokio::test]
async fn an_interrupted_task_whose_conversation_id_could_be_an_option_starts_a_new_conversation() {
    let script = r#"echo "$@" > args; cat > prompt; echo '{"type":"system","subtype":"init","session_id":"s-1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"bye","usage":{}}'"#;
    for turn in [TurnProgress::NotBegun, TurnProgress::Begun, TurnProgress::Finished] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let resume = Some(ResumedConversation { id: OPTION.to_owned(), turn });
        let job = ProgramJob { resume, task: TaskId::from("t"), ..job(&dir, ("claude", false), script) };
        let (end, reports) = run(&dir, &job).await;
        assert!(end.ok && end.output == "bye", "{end:?}");
        let args = std::fs::read_to_string(dir.join("work/args")).unwrap();
        assert!(!args.contains("mcpServers") && !args.contains("--resume"), "{args}");
        assert_eq!(std::fs::read_to_string(dir.join("work/prompt")).unwrap(), "do it");
        let notices = notices(&reports);
        assert!(notices.iter().any(|text| text.contains("conversation id")), "{notices:?}");
    }
}

#[tokio::test]
async fn a_conversation_id_on_the_screen_that_could_be_an_option_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let adapter = althing_runner::adapter::UserDefinedAdapter {
        name: "own".to_owned(),
        program: "sh".to_owned(),
        args: ["-c".to_owned(), "echo session --mcp-config=x".to_owned()].to_vec(),
        resume_args: Some(vec!["{session}".to_owned()]),
        terminal: althing_runner::adapter::TerminalTraits {
            conversation: Some("session (.*)".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    };
    let mut job = job(&dir, ("own", false), "");
    job.spec.mode = ExecutionMode::Interactive;
    job.spec.prompt.clear();
    let runner = super::message_floods::runner_with(&dir, vec![adapter]);
    let (_, reports) = super::message_floods::run_in(&runner, &job).await;
    assert_eq!(conversations(&reports), [""; 0]);
}
