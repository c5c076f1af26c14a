//! Text of models, tools and users on our screen: for any text and Markdown, at any size of the screen, in Unicode and
//! in ASCII, no part of the text acts on the terminal.

use crate::cut::choice;
use crate::foreign::{foreign, written};
use crate::script::{Script, team};
use crate::terminal::NullHost;
use althing_protocol::{DeltaKind, Fact, InteractionKind, Notice, NoticeLevel, PlanRef, Timestamp};
use althing_tui::{App, TuiOptions};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use std::sync::Arc;

pub(crate) fn check(bytes: &[u8]) {
    let (shape, bytes) = choice(bytes);
    let text = &*String::from_utf8_lossy(bytes);
    let mut script = Script::default();
    script.chat(true);
    script.user_sends(text);
    script.turn(1);
    script.replies(1, text);
    let notice = Notice { level: NoticeLevel::Warning, text: text.into(), hint: Some(text.into()) };
    script.fact(None, Fact::Notice(notice));
    script.run("r1", Some("c1"), text);
    script.delta("r1.agent1", DeltaKind::Text, text);
    if shape & 1 == 1 {
        let plan = PlanRef { id: text.into(), path: text.into() };
        let kind = InteractionKind::PlanApproval { plan, preview: text.lines().map(str::to_owned).collect() };
        script.asks(Some("c1"), "i", kind, None);
    }
    let options =
        TuiOptions { interactive: true, team: team(), ascii: shape & 2 == 2, ..TuiOptions::default() };
    let mut app = App::new(options, Arc::new(NullHost));
    for item in &script.items {
        app.apply(item);
    }
    app.sync();
    let (width, height) = (u16::from(shape >> 2) * 2, u16::from(shape >> 4) * 2 + 1);
    shown(&mut app, width, height);
    app.handle(&Event::Paste(text.to_owned()), Timestamp(0));
    shown(&mut app, 61, 20);
    for code in [KeyCode::Char('r'), KeyCode::Char('t')] {
        app.handle(&Event::Key(KeyEvent::new(code, KeyModifiers::CONTROL)), Timestamp(0));
        shown(&mut app, 61, 20);
    }
}

fn shown(app: &mut App, width: u16, height: u16) {
    let bytes = written(app, width, height);
    assert_eq!(foreign(&bytes), None, "{width}x{height}: {:?}", String::from_utf8_lossy(&bytes));
}
