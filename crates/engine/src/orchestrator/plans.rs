//! Plans between the log and the disk: kept when a planning run ends, read again when they are carried out.

use super::session::Session;
use althing_protocol::{Fact, Notice, NoticeLevel, TaskSpec, Verdict};

impl Session {
    /// A planning run's result names its plan, which is on disk before anybody hears of it. What is wrong is told.
    pub(super) fn keep_plan(&self, fact: &mut Fact) -> Option<Notice> {
        let Fact::Decided(Verdict::Finished { result, .. }) = fact else { return None };
        let keep = self.parts.plans.as_ref()?;
        if !result.modes.planning || result.final_answer.is_none() || result.plan.is_some() {
            return None;
        }
        match keep(result) {
            Ok(plan) => {
                result.plan = Some(plan);
                None
            }
            Err(why) => {
                let hint =
                    Some("its answer is kept as it is; ask again, or write the plan yourself".to_owned());
                Some(Notice { level: NoticeLevel::Warning, text: format!("no plan was kept: {why}"), hint })
            }
        }
    }

    /// A run carries out the plan as it is on disk: people may have changed it, and some of it may be done. What cannot be
    /// read is told, and the plan is carried out as it was made.
    pub(super) fn open_plan(&self, fact: &mut Fact) -> Option<Notice> {
        let Fact::TaskCreated { spec: TaskSpec::Run(spec), .. } = fact else { return None };
        let (plan, open) = (spec.plan.as_mut()?, self.parts.open_plan.as_ref()?);
        match open(plan) {
            Ok(opened) => {
                *plan = opened;
                None
            }
            Err(why) => {
                let text = format!("the plan is carried out as it was made: {why}");
                Some(Notice { level: NoticeLevel::Warning, text, hint: None })
            }
        }
    }
}
