//! Plays a scripted session in the terminal UI, for manual inspection: `cargo run -p althing-tui --example demo [--
//! SCENE]`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a demo for developers"
)]

#[path = "../tests/script/mod.rs"]
mod script;

use althing_protocol::{
    BoxFuture, DeltaKind, Engine, EventStream, FeedItem, Interest, JournalError, Op, Progress, Screen,
    ScreenCell, ScreenColor, Seq, Submission, TaskId, Timestamp,
};
use althing_tui::{TuiHost, TuiOptions, Welcome};
use script::Script;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

struct Scripted {
    script: Mutex<Script>,
    sender: mpsc::UnboundedSender<FeedItem>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<FeedItem>>>,
    typed: Mutex<String>,
}

impl Scripted {
    fn flush(&self, script: &mut Script) {
        for item in script.items.drain(..) {
            let _ = self.sender.send(item);
        }
    }
}

struct Stream(mpsc::UnboundedReceiver<FeedItem>);

impl EventStream for Stream {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<FeedItem, JournalError>>> {
        Box::pin(async move { self.0.recv().await.map(Ok) })
    }
}

impl Engine for Scripted {
    fn submit(&self, Submission { op, .. }: Submission) -> bool {
        let mut script = self.script.lock().unwrap();
        let now = Timestamp(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64,
        );
        script.now = now;
        match op {
            Op::SendMessage { text, modes, .. } => {
                script.user_sends_with(&text, modes);
                script.turn(9);
                self.flush(&mut script);
                let sender = self.sender.clone();
                let seq = script.seq;
                tokio::spawn(async move {
                    let words = "Here is a **streamed** reply that grows word by word.\n\n```rust\nfn main() {\n    println!(\"hello\");\n}\n```\n\nIt never jumps, however long it gets.\n\n";
                    for word in words.repeat(4).split_inclusive(' ') {
                        let delta = Progress::Delta {
                            after: Seq(seq),
                            task: TaskId::chat(),
                            kind: DeltaKind::Text,
                            text: word.to_owned(),
                        };
                        let _ = sender.send(FeedItem::Progress(Arc::new(delta)));
                        tokio::time::sleep(Duration::from_millis(40)).await;
                    }
                });
            }
            Op::Answer { interaction, decision } => {
                script.answered(interaction.as_str(), decision);
                self.flush(&mut script);
            }
            Op::Input { bytes, .. } => {
                self.typed.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes));
                let changed = Progress::ScreenChanged { after: Seq(script.seq), task: "w1.ask".into() };
                let _ = self.sender.send(FeedItem::Progress(Arc::new(changed)));
            }
            _ => {}
        }
        true
    }

    fn subscribe(&self, _: Seq, _: Interest) -> Box<dyn EventStream> {
        Box::new(Stream(self.receiver.lock().unwrap().take().unwrap()))
    }

    fn screen(&self, _: &TaskId) -> Option<Screen> {
        let typed = self.typed.lock().unwrap();
        let row = |text: &str, fg: ScreenColor| {
            text.chars().map(|c| ScreenCell { text: c.to_string(), fg, ..ScreenCell::default() }).collect()
        };
        let rows = vec![
            row("A program in a terminal.", ScreenColor::Indexed(2)),
            row(&format!("You typed: {}", typed.escape_default()), ScreenColor::Default),
        ];
        Some(Screen { cols: 80, rows, cursor: Some((0, 3)), ..Screen::default() })
    }
}

struct Here;

impl TuiHost for Here {
    fn now(&self) -> Timestamp {
        Timestamp(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64
        )
    }

    fn paths(&self, prefix: &str) -> Vec<String> {
        ["src/", "src/main.rs", "Cargo.toml"]
            .into_iter()
            .filter(|path| path.starts_with(prefix))
            .map(str::to_owned)
            .collect()
    }
}

fn main() -> std::io::Result<()> {
    let scene = std::env::args().nth(1).unwrap_or_default();
    let flag = |name: &str| std::env::args().any(|argument| argument == name);
    let mut options = TuiOptions {
        interactive: true,
        team: script::team(),
        ascii: flag("--ascii"),
        plain: flag("--plain"),
        bell: true,
        mouse: true,
        ..TuiOptions::default()
    };
    let mut script = Script { now: Timestamp(Here.now().0 - 300_000), ..Script::default() };
    match scene.as_str() {
        "welcome" => {
            script.chat(true);
            options.welcome = Some(Welcome {
                found: vec!["ANTHROPIC_API_KEY".into(), "claude 2.1".into(), "Ollama with 3 models".into()],
                missing: vec!["OPENAI_API_KEY".into(), "GEMINI_API_KEY".into()],
            });
        }
        "approval" => {
            script.chat(true);
            script.user_sends("Build phase 1");
            script.turn(1);
            script.approval();
        }
        "plan" => {
            script.chat(true);
            script.user_sends("Plan it");
            script.plan_approval();
        }
        "vote" => {
            script.chat(true);
            script.run("r1", Some("c1"), "Replace JWT");
            script.all_answer("r1");
            script.vote("r1");
            script.now = Here.now();
            script.override_window("r1");
        }
        "workflow" => {
            script.workflow();
            script.program_asks("w1.ask");
        }
        "long" => {
            script.chat(true);
            for n in 0..10_000 {
                script.user_sends(&format!("message {n}"));
                script.replies(1, &"one line of an answer\n".repeat(9));
            }
        }
        _ => {
            let shift = Here.now().0 - 200_000 - script::START.0;
            script = script::conversation();
            for item in &mut script.items {
                if let FeedItem::Event(event) = item {
                    let mut moved = (**event).clone();
                    moved.at = Timestamp(moved.at.0 + shift);
                    *event = Arc::new(moved);
                }
            }
        }
    }
    let (sender, receiver) = mpsc::unbounded_channel();
    let engine = Scripted {
        script: Mutex::new(Script::default()),
        sender,
        receiver: Mutex::new(Some(receiver)),
        typed: Mutex::default(),
    };
    engine.flush(&mut script);
    *engine.script.lock().unwrap() = script;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(althing_tui::run(Arc::new(engine), options, Arc::new(Here)))?;
    runtime.shutdown_background();
    assert!(exit != althing_tui::TuiExit::Ended, "a scripted session does not end");
    Ok(())
}
