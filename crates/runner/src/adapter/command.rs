//! The adapter `command` for any program of the user. In a headless run the prompt is the program's stdin, stdout is
//! the answer, and exit code 0 means success.

use super::{
    AgentAdapter, AskPattern, Exit, LaunchConfig, LaunchRequest, OutputEvent, OutputParser, Pattern,
    ProgramOutcome, Stream, TerminalTraits,
};
use althing_protocol::AskKind;

/// The adapter for the program that a task names itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandAdapter;

impl AgentAdapter for CommandAdapter {
    fn name(&self) -> &'static str {
        "command"
    }

    fn executable(&self) -> Option<&str> {
        None
    }

    fn launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let mut words = task.spec.command.iter().cloned();
        let program = words.next().unwrap_or_default();
        Some(LaunchConfig { program, args: words.collect(), ..LaunchConfig::default() })
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        self.launch_config(task)
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        Box::new(PlainTextParser)
    }

    fn is_agent(&self) -> bool {
        false
    }

    fn terminal(&self) -> TerminalTraits {
        TerminalTraits {
            asks: vec![
                AskPattern::new(
                    AskKind::Question,
                    Pattern::screen(
                        r"(?mi)^(?P<text>[^\n]*\S ?[\[(]yes ?/ ?no(?: ?/ ?[^)\n]+)?[\])] ?[?:>]?)\z",
                    ),
                    &[("no", "No", "no\r"), ("yes", "Yes", "yes\r")],
                ),
                AskPattern::new(
                    AskKind::Question,
                    Pattern::screen(
                        r"(?mi)^(?P<text>[^\n]*\S ?[\[(]y ?/ ?n(?: ?/ ?[^)\n]+)?[\])] ?[?:>]?)\z",
                    ),
                    &[("no", "No", "n\r"), ("yes", "Yes", "y\r")],
                ),
                AskPattern::new(
                    AskKind::Password,
                    Pattern::screen(r"(?mi)^(?P<text>[^\n]*\b(?:password|passphrase|passcode)\b[^\n]*:)\z"),
                    &[],
                ),
            ],
            ..TerminalTraits::default()
        }
    }
}

/// The parser for programs that write plain text: stdout is the answer, and exit code 0 means success.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainTextParser;

impl OutputParser for PlainTextParser {
    fn output(&mut self, stream: Stream, _raw: &[u8], clean: &str, emit: &mut dyn FnMut(OutputEvent)) {
        if stream == Stream::Out && !clean.is_empty() {
            emit(OutputEvent::TextDelta(clean.to_owned()));
        }
    }

    fn end(&mut self, exit: Exit, _tell: &mut dyn FnMut(OutputEvent)) -> ProgramOutcome {
        ProgramOutcome { ok: exit.is_success(), ..ProgramOutcome::default() }
    }
}
