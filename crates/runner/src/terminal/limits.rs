//! Times and sizes of terminals, in one place.

use std::time::Duration;

/// One read's worth of a flood.
pub(super) const BATCH: usize = 256 * 1024;
/// More than this within [`FLOOD_WINDOW`] is a flood: then a moment is waited for more, and most of it is never drawn.
pub(super) const FLOOD: usize = 32 * 1024;
/// How long is waited for more of a flood.
pub(super) const FLOOD_WAIT: Duration = Duration::from_millis(4);
/// Without output for this long, or counted anew after this long.
pub(super) const FLOOD_WINDOW: Duration = Duration::from_millis(100);
/// A screen that holds still for this long is looked at.
pub(super) const READ_AFTER_QUIET: Duration = Duration::from_millis(40);
/// And one that does not, this often.
pub(super) const READ_AT_LEAST_EVERY: Duration = Duration::from_millis(200);
/// What a program drew counts as said once it held still for this long.
pub(super) const SETTLE_AFTER_QUIET: Duration = Duration::from_millis(300);
/// Or was there this long.
pub(super) const SETTLE_AT_LEAST_EVERY: Duration = Duration::from_secs(2);
/// A question that is not seen for this long was answered.
pub(super) const QUESTION_GONE_AFTER: Duration = Duration::from_millis(150);
/// Some programs hear no keys just after they drew a question: an answer is typed once it was there for this long.
pub(super) const ANSWER_DELAY: Duration = Duration::from_millis(500);
/// A question that is still there this long after its answer was typed is asked again.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// What a program says of itself is told after this long, even if its screen does not show for what it waits.
pub(super) const QUESTION_DRAWN_WITHIN: Duration = Duration::from_millis(400);
/// Front ends are told at most this often that the screen changed.
pub(super) const SCREEN_REPORT_INTERVAL: Duration = Duration::from_millis(33);
/// How long output is waited for after the program ended, if somebody holds its terminal.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// How much of a program's output is told as it came.
pub(super) const MAX_REPORTED_RAW: usize = 16 * 1024 * 1024;
/// And as clean text.
pub(super) const MAX_REPORTED_CLEAN: usize = 16 * 1024 * 1024;
/// What waits to be typed into a program that does not read; more is refused.
pub(super) const MAX_PENDING_INPUT: usize = 1024 * 1024;
/// How much of its last words a program's end carries.
pub(super) const MAX_FINAL_OUTPUT: usize = 64 * 1024;
