//! Programs that run for a task: the ports to start them, to mask their output and to offer them tools over MCP.

use crate::{BoxFuture, Item, Notice, ProgramSpec, Secret, TaskId, ToolCall, ToolOutcome, ToolSpec, Usage};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// One attempt to run a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramJob {
    /// The task that the program belongs to.
    pub task: TaskId,
    /// The number of the attempt.
    pub attempt: u32,
    /// What to run, with templates expanded.
    pub spec: ProgramSpec,
    /// The program's own conversation to resume.
    pub resume: Option<ResumedConversation>,
    /// The directory of the task's files: raw output, and settings generated for the program.
    pub dir: String,
}

/// A program's own conversation that an interruption cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumedConversation {
    /// The program's id for the conversation.
    pub id: String,
    /// How far the turn had come that began with the task's prompt.
    pub turn: TurnProgress,
}

/// How far a turn of a program has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnProgress {
    /// The prompt was not sent.
    #[default]
    NotBegun,
    /// The prompt was sent, and the program has not finished the turn.
    Begun,
    /// The program has finished the turn.
    Finished,
}

/// What a program reports while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramReport {
    /// A finished piece of content: the id of the program's own conversation, a message, a use of a tool, or a prompt
    /// that was sent.
    Item(Item),
    /// The program wrote output. Either field may be empty.
    Output {
        /// The output as written.
        raw: Vec<u8>,
        /// The output without escape sequences and redraws.
        clean: String,
    },
    /// The program waits for a person.
    Waiting(Ask),
    /// The program continued without an answer.
    MovedOn,
    /// The program's screen changed.
    ScreenChanged,
    /// Something that the user must know, for example that the program wrote files that run code later.
    Notice(Notice),
}

/// A question of a program to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The kind of question.
    pub about: AskKind,
    /// The question's text, as far as it is known.
    pub text: String,
    /// The answers to choose from; empty if a person has to type into the terminal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<AskOption>,
    /// The program's id for the question, so that the answer reaches the right question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
}

/// The kind of a program's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// The program asks for permission to do something.
    Permission,
    /// The program asks for information.
    Question,
    /// The program asks the user to sign in.
    Auth,
    /// The program asks for a password or another secret, which has to be typed in its terminal.
    Password,
    /// The program has finished its turn, and waits for the next prompt or for its end.
    YourTurn,
    /// The program waits for an unknown reason.
    Other,
}

/// A predefined answer to a program's question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskOption {
    /// The option's id, which the answer contains.
    pub id: String,
    /// The label for people.
    pub label: String,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramEnd {
    /// Whether the program succeeded, judged by the final event in its output and by its exit code.
    pub ok: bool,
    /// The exit code, unless a signal ended the program.
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// The final message or the output, at most 64 KiB: if it is longer, its beginning and end, with a note between
    /// them that says where all of it is (of the text of a terminal: only its end).
    pub output: String,
    /// Why the program failed.
    pub error: Option<String>,
    /// A hint for people: how to fix the problem.
    pub hint: Option<String>,
    /// Tokens and cost, as far as the program reports them.
    pub usage: Usage,
}

/// Receives a program's reports; must not block.
pub type ReportSink = Arc<dyn Fn(ProgramReport) + Send + Sync>;

/// Runs programs: over pipes, or in terminals.
pub trait Programs: Send + Sync {
    /// Runs a program to its end. Dropping the future ends the program and every process that it started.
    fn run<'a>(&'a self, job: &'a ProgramJob, reports: ReportSink) -> BoxFuture<'a, ProgramEnd>;

    /// Writes to a running program's terminal. Returns false if the program has no terminal.
    fn input(&self, task: &TaskId, bytes: &[u8]) -> bool;

    /// Changes the size of a running program's terminal.
    fn resize(&self, task: &TaskId, cols: u16, rows: u16);

    /// Answers a question of a program's structured protocol: `native` is the program's id for the question. Returns
    /// false if no such question is open.
    fn answer(&self, task: &TaskId, native: &str, option: &str) -> bool;

    /// A program's current screen; None if the program has no terminal.
    fn screen(&self, task: &TaskId) -> Option<Screen>;
}

/// Masks known secrets in programs' output before it is stored.
pub trait OutputMasking: Send + Sync + fmt::Debug {
    /// A masking filter for one stream, with the secrets that are known now.
    fn stream(&self) -> Box<dyn MaskStream>;
}

/// A filter that masks secrets in one stream, even if a secret is split across chunks.
pub trait MaskStream: Send + fmt::Debug {
    /// Masks the next chunk. Its end is held back if it could be the beginning of a secret.
    fn push<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8];

    /// Returns what is still held back at the end of the stream.
    fn finish(&mut self) -> &[u8];
}

/// A snapshot of a terminal's screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// The number of columns.
    pub cols: u16,
    /// The rows from the top; trailing blank cells of a row may be missing.
    pub rows: Vec<Vec<ScreenCell>>,
    /// The cursor's position (column, row); None if the cursor is hidden.
    pub cursor: Option<(u16, u16)>,
    /// The window title that the program set.
    pub title: String,
    /// Whether the program enabled bracketed paste.
    pub bracketed_paste: bool,
    /// Whether the program enabled application cursor keys.
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
    /// The character with its combining marks; empty for the second half of a wide character.
    pub text: String,
    /// The foreground color.
    pub fg: ScreenColor,
    /// The background color.
    pub bg: ScreenColor,
    /// Whether the text is bold.
    pub bold: bool,
    /// Whether the text is dim.
    pub dim: bool,
    /// Whether the text is italic.
    pub italic: bool,
    /// Whether the text is underlined.
    pub underline: bool,
    /// Whether foreground and background are swapped.
    pub inverse: bool,
}

/// A terminal color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScreenColor {
    /// The terminal's default color.
    #[default]
    Default,
    /// A color of the 256-color palette.
    Indexed(u8),
    /// A color given by its red, green and blue components.
    Rgb(u8, u8, u8),
}

/// Offers Althing's tools to CLI agents over MCP: one endpoint for each model call.
pub trait Endpoints: Send + Sync {
    /// Opens an endpoint that offers these tools. Dropping the endpoint closes it and revokes its token.
    fn open(
        &self,
        tools: Vec<ToolSpec>,
        calls: Arc<dyn EndpointHandler>,
    ) -> BoxFuture<'_, Result<Box<dyn Endpoint>, String>>;
}

/// An open MCP endpoint.
pub trait Endpoint: Send + Sync {
    /// The endpoint's URL: streamable HTTP on the loopback interface.
    fn url(&self) -> &str;

    /// The bearer token that the CLI agent must send.
    fn token(&self) -> &Secret;

    /// Whether the CLI agent has requested the list of tools, which shows that it is connected.
    fn is_connected(&self) -> bool;
}

/// Handles the tool calls of an endpoint.
pub trait EndpointHandler: Send + Sync {
    /// Executes one tool call.
    fn call(&self, call: ToolCall) -> BoxFuture<'_, ToolOutcome>;
}
