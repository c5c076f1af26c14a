//! Earlier conversations on the screen: the picker of sessions, and a message that is edited and sent again.

use althing_testkit::{Althing, Reply, Script, Terminal};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, althing, run, texts};

const UP: &str = "\x1b[A";
const CTRL_R: &str = "\x12";
const CTRL_U: &str = "\x15";
const CTRL_X: &str = "\x18";

fn offline(althing: &Althing, cols: u16, rows: u16) -> Terminal {
    let terminal = althing.new_command().arg("--offline").terminal(cols, rows);
    terminal.wait_for("Type a message...", LIMIT);
    terminal
}

/// Has a conversation of one message with the offline model, and leaves it. Returns its id.
fn converse(althing: &Althing, message: &str) -> String {
    let mut terminal = offline(althing, 100, 30);
    terminal.keys(message).keys("\r");
    terminal.wait_until(LIMIT, "the reply", |screen| {
        screen.contains("not an AI") && screen.contains("Status: Idle") && screen.contains("You")
    });
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
    newest(althing)
}

fn newest(althing: &Althing) -> String {
    sessions(althing)[0]["id"].as_str().unwrap().to_owned()
}

fn sessions(althing: &Althing) -> Vec<Value> {
    let output = run(althing, &["sessions", "--json"]).expect_code(0);
    serde_json::from_str(&output.stdout).unwrap()
}

fn title(althing: &Althing, id: &str) -> String {
    let sessions = sessions(althing);
    let session = sessions.iter().find(|session| session["id"] == id).expect("the session is listed");
    session["title"].as_str().unwrap().to_owned()
}

fn open_picker(terminal: &mut Terminal) -> String {
    terminal.keys("/resume");
    terminal.wait_for("› /resume", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("Filter:", LIMIT)
}

#[test]
fn the_picker_filters_previews_and_resumes() {
    for (cols, rows) in [(80, 24), (160, 45)] {
        let althing = althing();
        converse(&althing, "Which cheese goes with pears?");
        converse(&althing, "Name two rivers in France");
        converse(&althing, "hello");
        let mut terminal = offline(&althing, cols, rows);
        let screen = open_picker(&mut terminal);
        assert!(screen.contains("3 of 3"), "{screen}");
        // A greeting does not say what the conversation is about, so the reply is added to the title.
        assert!(screen.lines().any(|line| line.contains("hello – You wrote")), "{screen}");
        let directory = althing.work_dir();
        let name = directory.file_name().unwrap().to_str().unwrap();
        assert!(screen.contains(name) && screen.contains("just now"), "where and when:\n{screen}");

        terminal.keys("CHEESE");
        let screen = terminal.wait_for("1 of 3", LIMIT);
        assert!(!screen.contains("rivers"), "{screen}");
        assert!(screen.contains("You wrote: \"Which cheese"), "a preview of the reply:\n{screen}");
        terminal.keys("zzz");
        terminal.wait_for("no session matches", LIMIT);
        terminal.keys("\r");
        terminal.keys("\x1b");
        terminal.wait_for("3 of 3", LIMIT);
        terminal.keys("rivers");
        terminal.wait_for("1 of 3", LIMIT);
        terminal.keys("\r");
        let screen = terminal.wait_until(LIMIT, "the conversation", |screen| {
            screen.contains("Name two rivers in France") && !screen.contains("Filter:")
        });
        assert!(screen.contains("You wrote: \"Name two rivers"), "{screen}");
    }
}

#[test]
fn a_session_is_renamed_in_the_picker_and_by_command_and_every_list_shows_the_title() {
    let althing = althing();
    let id = converse(&althing, "Which cheese goes with pears?");
    assert_eq!(title(&althing, &id), "Which cheese goes with pears?");
    let mut terminal = offline(&althing, 80, 24);
    open_picker(&mut terminal);
    terminal.keys(CTRL_R);
    terminal.wait_for("New title: Which cheese", LIMIT);
    terminal.keys(CTRL_U).keys("Dinner on Friday");
    terminal.wait_for("New title: Dinner on Friday", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("› Dinner on Friday", LIMIT);
    assert_eq!(title(&althing, &id), "Dinner on Friday");
    let listed = run(&althing, &["sessions"]).expect_code(0).stdout;
    assert!(
        listed.lines().any(|line| line.starts_with(&id) && line.ends_with("Dinner on Friday")),
        "{listed}"
    );
    terminal.keys("\x1b");
    terminal.wait_gone("Filter:", LIMIT);

    // The open session is renamed with a command.
    terminal.keys("hello\r");
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys("/rename First steps\r");
    terminal.wait_for("this session is now called: First steps", LIMIT);
    assert_eq!(title(&althing, &newest(&althing)), "First steps");

    // In a script, an empty title restores the one that is made from the first messages.
    run(&althing, &["sessions", "rename", &id, ""]).expect_code(0);
    assert_eq!(title(&althing, &id), "Which cheese goes with pears?");
}

#[test]
fn a_deletion_is_asked_once_and_a_session_in_use_stays() {
    let althing = althing();
    let kept = converse(&althing, "Which cheese goes with pears?");
    let deleted = converse(&althing, "Name two rivers in France");
    let listed = |id: &str| sessions(&althing).iter().any(|session| session["id"] == id);
    let mut terminal = offline(&althing, 80, 24);
    open_picker(&mut terminal);
    // A `y` that follows at once does not confirm, and neither does Enter.
    terminal.keys_at_once(&format!("{CTRL_X}y"));
    let screen = terminal.wait_for("too soon", LIMIT);
    assert!(screen.contains("Delete “Name two rivers in France” forever?"), "{screen}");
    terminal.keys("\r");
    terminal.wait_gone("forever?", LIMIT);
    assert!(listed(&deleted));
    terminal.keys(CTRL_X);
    terminal.wait_for("forever?", LIMIT);
    terminal.keys("y");
    terminal.wait_for("1 of 1", LIMIT);
    assert!(!listed(&deleted) && listed(&kept));

    // Another process opens the other session meanwhile.
    let other = althing.new_command().args(["--session", &kept]).terminal(80, 24);
    other.wait_for("Which cheese goes with pears?", LIMIT);
    terminal.keys(CTRL_X);
    terminal.wait_for("forever?", LIMIT);
    terminal.keys("y");
    terminal.wait_for("is in use", LIMIT);
    assert!(listed(&kept));
}

/// A conversation with the model `talker` that gives these replies.
fn conversation(replies: [&str; 4]) -> Fixture {
    let fixture = Fixture::new(2, Script::parliament().on("talker").each(replies.map(Reply::text)));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend}));
    fixture.althing.file("team.yaml", team.text());
    fixture
}

#[test]
fn an_edited_message_starts_a_branch_and_the_old_conversation_stays_reachable() {
    for (cols, rows) in [(80, 24), (160, 45)] {
        let fixture = conversation(["first reply", "second reply", "third reply", "branched reply"]);
        let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(cols, rows);
        terminal.wait_for("Type a message...", LIMIT);
        for (message, reply) in [
            ("question one", "first reply"),
            ("question two", "second reply"),
            ("question three", "third reply"),
        ] {
            terminal.keys(message).keys("\r");
            terminal.wait_for(reply, LIMIT);
            terminal.wait_for("Status: Idle", LIMIT);
        }
        let origin = newest(&fixture.althing);
        // Up from the newest reply to the second question.
        terminal.keys("\t");
        terminal.wait_for("c copy", LIMIT);
        terminal.keys(UP).keys(UP).keys(UP);
        terminal.wait_for("e edit", LIMIT);
        terminal.keys("e");
        terminal.wait_for("› question two", LIMIT);
        terminal.wait_for("enter branch from here", LIMIT);
        // Esc keeps everything as it was.
        terminal.keys("\x1b");
        terminal.wait_for("Type a message...", LIMIT);
        terminal.keys("\t").keys(UP).keys(UP).keys(UP);
        terminal.wait_for("e edit", LIMIT);
        terminal.keys("e");
        terminal.wait_for("› question two", LIMIT);
        terminal.keys(" and a half\r");
        let screen = terminal.wait_for("branched reply", LIMIT);
        assert!(screen.contains("question two and a half") && screen.contains("first reply"), "{screen}");
        assert!(screen.contains(&format!("a branch of session {origin}")), "{screen}");
        assert!(!screen.contains("second reply") && !screen.contains("question three"), "{screen}");
        let sent = texts(&fixture.server.requests().pop().unwrap());
        assert!(sent.contains("question one") && sent.contains("first reply"), "{sent}");
        assert!(!sent.contains("second reply") && !sent.contains("question three"), "{sent}");

        // The old conversation is still there.
        let branch = newest(&fixture.althing);
        assert_ne!(branch, origin);
        terminal.wait_for("Status: Idle", LIMIT);
        open_picker(&mut terminal);
        terminal.keys("\r");
        let screen = terminal.wait_until(LIMIT, "the old conversation", |screen| {
            screen.contains("third reply") && !screen.contains("Filter:")
        });
        assert!(screen.contains("second reply") && !screen.contains("branched"), "{screen}");
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);

        // And the branch survives a resume.
        let terminal = fixture.althing.new_command().args(["--session", &branch]).terminal(cols, rows);
        let screen = terminal.wait_for("branched reply", LIMIT);
        assert!(screen.contains("question one") && screen.contains("first reply"), "{screen}");
    }
}
