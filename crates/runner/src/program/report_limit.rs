//! Limits what one start of a program adds to the session's log and to Althing's memory. A program, and any command
//! that it runs and that writes to its output, chooses how much that would be.

use althing_protocol::{Item, Notice, NoticeLevel, ProgramReport, ReportSink};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};

const MEBIBYTES: usize = 32;
/// Far more than a program says in a day of work.
const MAX_MESSAGES: usize = 50_000;
pub(super) const MAX_QUESTIONS: usize = 10_000;

/// What is left of a limit on number and size.
#[derive(Debug)]
pub(super) struct Budget {
    number: usize,
    bytes: usize,
}

impl Budget {
    pub(super) fn of_questions() -> Self {
        Self { number: MAX_QUESTIONS, bytes: MEBIBYTES << 20 }
    }

    /// Whether there is room for this; if so, it is taken.
    pub(super) fn take<R: Serialize>(&mut self, report: &R) -> bool {
        let bytes = serde_json::to_vec(report).map_or(usize::MAX, |json| json.len());
        let fits = self.number > 0 && bytes <= self.bytes;
        if fits {
            self.number -= 1;
            self.bytes -= bytes;
        }
        fits
    }
}

struct Left {
    messages: Budget,
    /// Messages leave no question without room: a program waits until its question is answered.
    questions: Budget,
    /// Whether the last question was passed on.
    asks: bool,
    is_told: bool,
}

/// Passes on the reports of the program `name` until they exceed the limit in total, and then only those that are not
/// stored and those that a program cannot repeat. The user is told once.
pub(super) fn limited(name: &str, reports: ReportSink) -> ReportSink {
    let left = Mutex::new(Left {
        messages: Budget { number: MAX_MESSAGES, bytes: MEBIBYTES << 20 },
        questions: Budget::of_questions(),
        asks: false,
        is_told: false,
    });
    let name = name.to_owned();
    Arc::new(move |report| {
        let (passes, tells) = left.lock().unwrap_or_else(PoisonError::into_inner).take(&report);
        if tells {
            reports(ProgramReport::Notice(notice(&name)));
        }
        if passes {
            reports(report);
        }
    })
}

impl Left {
    /// Whether the report is passed on, and whether the user must be told that reports are left out.
    fn take(&mut self, report: &ProgramReport) -> (bool, bool) {
        let fits = match report {
            ProgramReport::Item(Item::PromptSent { .. })
            | ProgramReport::Output { .. }
            | ProgramReport::ScreenChanged
            | ProgramReport::Notice(_) => return (true, false),
            ProgramReport::MovedOn => return (std::mem::take(&mut self.asks), false),
            ProgramReport::Item(item) => self.messages.take(item),
            ProgramReport::Waiting(ask) => {
                let fits = self.questions.take(ask);
                self.asks |= fits;
                fits
            }
        };
        (fits, !fits && !std::mem::replace(&mut self.is_told, true))
    }
}

fn notice(name: &str) -> Notice {
    let text = format!(
        "{name} has sent so many messages or questions that further ones are not stored (the limit is {MEBIBYTES} MiB, \
         {MAX_MESSAGES} messages and {MAX_QUESTIONS} questions); its last message still counts"
    );
    let hint = Some("look at what it does: no ordinary task comes near this limit".to_owned());
    Notice { level: NoticeLevel::Warning, text, hint }
}

#[cfg(test)]
mod tests {
    use super::{MAX_QUESTIONS, limited};
    use althing_protocol::{Ask, AskKind, Item, ProgramReport};
    use std::sync::{Arc, Mutex};

    #[test]
    fn questions_count_and_only_a_question_that_was_passed_on_is_said_to_be_over() {
        let passed: Arc<Mutex<Vec<ProgramReport>>> = Arc::default();
        let into = Arc::clone(&passed);
        let reports = limited("x", Arc::new(move |report| into.lock().unwrap().push(report)));
        let ask = || {
            let text = "May I?".to_owned();
            ProgramReport::Waiting(Ask { about: AskKind::Other, text, options: Vec::new(), native: None })
        };
        for _ in 0..=MAX_QUESTIONS {
            reports(ask());
            reports(ProgramReport::MovedOn);
        }
        let sent = Item::PromptSent { text: "go".to_owned(), error: None };
        reports(ProgramReport::Item(sent.clone()));
        let passed = passed.lock().unwrap();
        let count = |is: fn(&ProgramReport) -> bool| passed.iter().filter(|report| is(report)).count();
        assert_eq!(count(|report| matches!(report, ProgramReport::Waiting(_))), MAX_QUESTIONS);
        assert_eq!(count(|report| matches!(report, ProgramReport::MovedOn)), MAX_QUESTIONS);
        assert_eq!(count(|report| matches!(report, ProgramReport::Notice(_))), 1);
        assert_eq!(passed.last(), Some(&ProgramReport::Item(sent)));
    }
}
