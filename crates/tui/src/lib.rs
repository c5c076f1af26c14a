//! The terminal UI: folds a session's events into screens, and turns keys into ops.
//!
//! It accesses a session only through the port `Engine`: it folds the feed and submits the user's ops. It owns the
//! terminal and nothing else: files, programs and the clock are accessed through `TuiHost`.
#![allow(missing_docs, reason = "internal crate: names that explain themselves need no comment")]

mod app;
mod ascii;
mod attach;
mod background;
mod editor;
mod event_loop;
mod host;
mod line;
mod list;
mod markdown;
mod modes;
mod paint;
mod plain;
mod replay;
mod search;
mod signals;
mod terminal;
mod theme;
mod view;

pub use althing_view::session_list::PreviewMessage;
pub use app::{App, Effect, TrustChoice};
pub use event_loop::{ask_trust, run};
pub use host::{
    NotificationForm, Notifications, ProjectEntry, SessionEntry, TuiExit, TuiHost, TuiOptions, Welcome,
};
pub use modes::{OverrideState, PlanMode, TuiModeState};
pub use replay::Replay;
pub use terminal::{TerminalGuard, restore_terminal};
pub use theme::Theme;
