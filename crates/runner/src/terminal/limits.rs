//! Time and size limits of terminals.

use std::time::Duration;

pub(super) const BATCH: usize = 256 * 1024;
/// This many bytes within [`FLOOD_WINDOW`] are a flood: reading then waits briefly for more output, so that most of a
/// large piece need not be drawn.
pub(super) const FLOOD: usize = 32 * 1024;
pub(super) const FLOOD_WAIT: Duration = Duration::from_millis(4);
/// The length of the window in which bytes are counted. The first read after its end, or after a pause of this
/// length, starts a new window.
pub(super) const FLOOD_WINDOW: Duration = Duration::from_millis(100);
/// The screen is read (matched against the patterns) when it has not changed for this long.
pub(super) const READ_AFTER_QUIET: Duration = Duration::from_millis(40);
pub(super) const READ_AT_LEAST_EVERY: Duration = Duration::from_millis(200);
/// Drawn text goes into the transcript when the screen has not changed for this long.
pub(super) const SETTLE_AFTER_QUIET: Duration = Duration::from_millis(300);
pub(super) const SETTLE_AT_LEAST_EVERY: Duration = Duration::from_secs(2);
/// A question that has been absent from the screen for this long counts as answered.
pub(super) const QUESTION_GONE_AFTER: Duration = Duration::from_millis(150);
/// Some programs ignore keys just after they drew a question, so an answer is typed only after this delay.
pub(super) const ANSWER_DELAY: Duration = Duration::from_millis(500);
/// How soon an answer is tried again if the question is not on the screen at the moment.
pub(super) const ANSWER_RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// A question that is still on the screen this long after its answer was typed is reported again. On a busy machine,
/// a program may take more than two seconds to remove its dialog, and a second answer would go into its input box.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const LEAVE_PAUSE: Duration = Duration::from_millis(600);
/// How long a program may take to exit, in addition to [`ANSWER_TIMEOUT`], before its turn is reported again.
pub(super) const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// A program whose own status (OSC 7501) or title says that it waits for a person is reported as waiting after this
/// time, even if the screen shows no question. On a busy machine, Codex draws its dialog a second after its status;
/// with a shorter time, the dialog would be reported as a second question.
pub(super) const QUESTION_DRAWN_WITHIN: Duration = Duration::from_secs(2);
/// Front ends are notified of screen changes at most this often.
pub(super) const SCREEN_REPORT_INTERVAL: Duration = Duration::from_millis(33);
/// How long to wait for more output after the program's end, while another process holds the terminal open.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// The maximum number of bytes of raw output that are reported; the rest is only in the raw output file.
pub(super) const MAX_REPORTED_RAW: usize = 16 * 1024 * 1024;
pub(super) const MAX_REPORTED_CLEAN: usize = 16 * 1024 * 1024;
/// Further input for a program that does not read its input is refused at this number of bytes.
pub(super) const MAX_PENDING_INPUT: usize = 1024 * 1024;
pub(super) const MAX_FINAL_OUTPUT: usize = 64 * 1024;
