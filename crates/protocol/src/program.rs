//! Programs that are driven for a task: the port that `runner` fills, and what passes through it.

use crate::{BoxFuture, Item, ProgramSpec, Secret, TaskId, ToolCall, ToolOutcome, ToolSpec, Usage};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// One try of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramJob {
    /// Whose.
    pub task: TaskId,
    /// Which try.
    pub attempt: u32,
    /// What to run, its templates filled in.
    pub spec: ProgramSpec,
    /// The program's own conversation to go on with.
    pub resume: Option<String>,
    /// Where the task's files are: raw output, settings made for the program.
    pub dir: String,
}

/// What a program does while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramReport {
    /// A finished piece of content: its own conversation's id, a message, a tool it used, the prompt it was sent.
    Item(Item),
    /// Output as it came, and the same as clean text. Either may be empty.
    Output {
        /// As it came.
        raw: Vec<u8>,
        /// Without escape sequences and redraws.
        clean: String,
    },
    /// It waits for a person.
    Waiting(Ask),
    /// It goes on by itself.
    MovedOn,
    /// Its screen looks different now.
    ScreenChanged,
}

/// What a program waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// What kind of question it is.
    pub about: AskKind,
    /// The question, as far as it can be told.
    pub text: String,
    /// The answers that can be given by name; empty where one has to attach and type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<AskOption>,
    /// The program's own id for it, so that an answer reaches the right one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
}

/// What kind of question a program asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// May it do something?
    Permission,
    /// It wants to know something.
    Question,
    /// It wants somebody to sign in.
    Auth,
    /// It waits, for what cannot be told.
    Other,
}

/// An answer that can be given by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskOption {
    /// Its id, which the answer carries.
    pub id: String,
    /// What people read.
    pub label: String,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramEnd {
    /// Whether it did what it was to do: by its terminal event and its exit code.
    pub ok: bool,
    /// Its exit code, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its final message, or its output: at most 64 KiB, then the path of the rest.
    pub output: String,
    /// Why it failed.
    pub error: Option<String>,
    /// What a person can do about it.
    pub hint: Option<String>,
    /// What it cost, as far as it says so.
    pub usage: Usage,
}

/// Where reports go. Called on the hot path: it must not block.
pub type ReportSink = Arc<dyn Fn(ProgramReport) + Send + Sync>;

/// Runs programs: over pipes, or in terminals.
pub trait Programs: Send + Sync {
    /// Runs a program to its end. Dropping the future ends it and everything it started.
    fn run<'a>(&'a self, job: &'a ProgramJob, reports: ReportSink) -> BoxFuture<'a, ProgramEnd>;

    /// Writes to a running program's terminal. False where there is none.
    fn input(&self, task: &TaskId, bytes: &[u8]) -> bool;

    /// Changes the size of its terminal.
    fn resize(&self, task: &TaskId, cols: u16, rows: u16);

    /// Answers what it asked over its structured protocol. False where it asked nothing of that id.
    fn answer(&self, task: &TaskId, native: &str, option: &str) -> bool;

    /// Its screen as it is now; None for programs without a terminal.
    fn screen(&self, task: &TaskId) -> Option<Screen>;
}

/// Takes secrets out of what programs write, where that is kept.
pub trait Masks: Send + Sync + fmt::Debug {
    /// For one stream: without the secrets that are known now.
    fn stream(&self) -> Box<dyn MaskStream>;
}

/// One stream without secrets, however it is cut.
pub trait MaskStream: Send + fmt::Debug {
    /// The next piece without secrets. Its end may be held back until it is known not to be the beginning of one.
    fn push<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8];

    /// What was held back to the end.
    fn finish(&mut self) -> &[u8];
}

/// A terminal's screen at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// How many columns.
    pub cols: u16,
    /// Its rows from the top; the last cells of a row may be left out where they are blank.
    pub rows: Vec<Vec<ScreenCell>>,
    /// Where the cursor is (column, row), if it shows.
    pub cursor: Option<(u16, u16)>,
    /// The title the program gave it.
    pub title: String,
    /// Whether the program asked for bracketed paste.
    pub bracketed_paste: bool,
    /// Whether the program asked for arrow keys in application mode.
    pub application_cursor: bool,
}

impl Screen {
    /// The rows as plain text.
    pub fn text(&self) -> Vec<String> {
        let row = |cells: &Vec<ScreenCell>| {
            let text: String = cells.iter().map(|cell| cell.text.as_str()).collect();
            text.trim_end().to_owned()
        };
        self.rows.iter().map(row).collect()
    }
}

/// One cell of a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenCell {
    /// The character with what combines with it; empty for the second half of a wide one.
    pub text: String,
    /// Its colour.
    pub fg: ScreenColor,
    /// The colour behind it.
    pub bg: ScreenColor,
    /// Bold.
    pub bold: bool,
    /// Dim.
    pub dim: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// With the colours swapped.
    pub inverse: bool,
}

/// A colour of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScreenColor {
    /// The terminal's own.
    #[default]
    Default,
    /// One of 256.
    Indexed(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

/// Offers tools to programs over MCP: one endpoint for one try of one agent.
pub trait Endpoints: Send + Sync {
    /// Opens an endpoint that offers these tools. Dropping it closes it, and its token is worth nothing any more.
    fn open(
        &self,
        tools: Vec<ToolSpec>,
        calls: Arc<dyn EndpointHandler>,
    ) -> BoxFuture<'_, Result<Box<dyn Endpoint>, String>>;
}

/// An open endpoint.
pub trait Endpoint: Send + Sync {
    /// Its address: streamable HTTP on the loopback.
    fn url(&self) -> &str;

    /// What a program must send as bearer token.
    fn token(&self) -> &Secret;

    /// Whether a program has asked for the list of tools: only then is it connected.
    fn is_connected(&self) -> bool;
}

/// What answers the calls of an endpoint's tools.
pub trait EndpointHandler: Send + Sync {
    /// Carries out one call.
    fn call(&self, call: ToolCall) -> BoxFuture<'_, ToolOutcome>;
}
