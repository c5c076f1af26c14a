//! Which troubles of a program become notices. Notices are stored, and a program decides what it prints and how often
//! that changes: so each text is reported once, and only so many of them.

use althing_protocol::{Notice, NoticeLevel};
use std::collections::BTreeSet;

const MAX_REPORTED: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct ReportedTroubles {
    texts: BTreeSet<String>,
}

impl ReportedTroubles {
    /// The notice about a trouble; `None` if it was reported before, or if too many were.
    pub(crate) fn notice(&mut self, name: &str, trouble: String) -> Option<Notice> {
        if self.texts.len() >= MAX_REPORTED || self.texts.contains(&trouble) {
            return None;
        }
        let text = format!("{name}: {trouble}");
        self.texts.insert(trouble);
        let hint = (self.texts.len() == MAX_REPORTED)
            .then(|| "further problems that the program reports are not stored".to_owned());
        Some(Notice { level: NoticeLevel::Warning, text, hint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_that_changes_all_the_time_makes_few_notices() {
        let mut reported = ReportedTroubles::default();
        let readings = (0..1000).map(|n| format!("no reply, attempt {}", n % 100));
        let notices: Vec<Notice> = readings.filter_map(|text| reported.notice("x", text)).collect();
        let texts: BTreeSet<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
        assert_eq!((notices.len(), texts.len()), (MAX_REPORTED, MAX_REPORTED));
        assert_eq!(notices[0].text, "x: no reply, attempt 0");
        let hints: Vec<bool> = notices.iter().map(|notice| notice.hint.is_some()).collect();
        assert_eq!(
            hints.iter().position(|has_hint| *has_hint),
            Some(MAX_REPORTED - 1),
            "the last one says so"
        );
    }
}
