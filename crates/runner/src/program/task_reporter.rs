//! Converts the events of a task's program into reports.

use super::excerpt::OutputExcerpt;
use super::pipes::ProgramEvent;
use super::troubles::ReportedTroubles;
use crate::adapter::{OutputEvent, Stream};
use althing_protocol::{Item, ProgramReport, ReportSink};

pub(super) struct TaskReporter<'a> {
    pub(super) prompt: &'a str,
    pub(super) resume: Option<&'a str>,
    pub(super) reports: &'a ReportSink,
    pub(super) excerpt: OutputExcerpt,
    pub(super) conversation: Option<String>,
    pub(super) acted: bool,
    pub(super) name: &'a str,
    pub(super) trouble: Option<String>,
    troubles: ReportedTroubles,
}

impl<'a> TaskReporter<'a> {
    pub(super) fn new(
        name: &'a str,
        prompt: &'a str,
        resume: Option<&'a str>,
        reports: &'a ReportSink,
    ) -> Self {
        Self {
            prompt,
            resume,
            reports,
            excerpt: OutputExcerpt::default(),
            conversation: None,
            acted: false,
            name,
            trouble: None,
            troubles: ReportedTroubles::default(),
        }
    }

    fn report_trouble(&mut self, text: String) {
        if let Some(notice) = self.troubles.notice(self.name, text.clone()) {
            (self.reports)(ProgramReport::Notice(notice));
        }
        self.trouble = Some(text);
    }

    pub(super) fn on_event(&mut self, event: ProgramEvent<'_>) {
        match event {
            ProgramEvent::Output(stream, raw, clean) => {
                if stream == Stream::Out {
                    self.excerpt.push(clean);
                }
                (self.reports)(ProgramReport::Output { raw: raw.to_vec(), clean: clean.to_owned() });
            }
            ProgramEvent::Parsed(
                OutputEvent::TextDelta(_) | OutputEvent::ModelReplies | OutputEvent::FailedCall { .. },
            ) => {}
            ProgramEvent::Parsed(OutputEvent::Trouble(trouble)) => self.report_trouble(trouble.text),
            ProgramEvent::Parsed(OutputEvent::Item(item)) => {
                if let Item::Conversation { id } = &item {
                    self.conversation = Some(id.clone());
                    if self.resume == Some(id) {
                        return;
                    }
                } else {
                    self.acted = true;
                    self.trouble = None;
                }
                (self.reports)(ProgramReport::Item(item));
            }
            ProgramEvent::Waiting(ask) => (self.reports)(ProgramReport::Waiting(ask)),
            ProgramEvent::MovedOn => (self.reports)(ProgramReport::MovedOn),
            ProgramEvent::PromptSent(result) => {
                let sent = Item::PromptSent { text: self.prompt.to_owned(), error: result.err() };
                (self.reports)(ProgramReport::Item(sent));
            }
        }
    }
}
