//! Tests of `Replay`, which plays a recorded session to a front end as a running engine does.

use super::support::TestScreen;
use crate::script;
use althing_protocol::{Engine, Event, FeedItem, Op, Origin, Seq, Submission};
use althing_tui::Replay;

fn events() -> Vec<Event> {
    let items = script::conversation().items;
    items
        .iter()
        .filter_map(|item| match item {
            FeedItem::Event(event) => Some((**event).clone()),
            FeedItem::Progress(_) => None,
        })
        .collect()
}

async fn play(replay: &Replay, from: Seq) -> Vec<FeedItem> {
    let mut stream = replay.subscribe(from, althing_protocol::Interest::Everything);
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(item.unwrap());
    }
    items
}

#[tokio::test(start_paused = true)]
async fn a_recording_shows_what_the_session_showed() {
    let replay = Replay::new(events(), 0.0);
    let mut screen = TestScreen::new(100, 30);
    screen.feed(&play(&replay, Seq(0)).await);
    let live = TestScreen::showing(&script::conversation(), 100, 30);
    assert_eq!(screen.rows()[..18], live.rows()[..18]);
    assert_eq!(play(&replay, Seq(10)).await.len(), events().len() - 10);
    assert!(!replay.submit(Submission::new(Op::Resume, Origin::User)), "it accepts no input");
}

#[tokio::test(start_paused = true)]
async fn speed_shortens_pauses_and_none_is_too_long() {
    let start = tokio::time::Instant::now();
    play(&Replay::new(events(), 1.0), Seq(0)).await;
    let real = start.elapsed();
    // One pause of the recording is 65 seconds long; it is shortened to three.
    assert!(real.as_secs() >= 3 && real.as_secs() < 10, "{real:?}");
    let start = tokio::time::Instant::now();
    play(&Replay::new(events(), 100.0), Seq(0)).await;
    assert!(start.elapsed().as_millis() < 1000);
}
