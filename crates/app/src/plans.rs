//! The stored plans of a state directory.

use crate::base_dirs::BaseDirs;
use crate::context::AppContext;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::project_recorder::plan_run;
use crate::trust;
use althing_protocol::{PlanDraft, PlanRef, PlanRun, Plans};
use althing_workspace::{PlanStore, PlanStoreError, StoredPlan};
use std::path::{Path, PathBuf};

pub struct StoredPlans {
    pub state_dir: PathBuf,
    /// The environment, whose user state directory records which plans this user made.
    pub environment: Environment,
}

impl Plans for StoredPlans {
    fn store(&self, draft: &PlanDraft) -> Result<PlanRef, String> {
        let plan = althing_plan::find_plan(&draft.answer).map_err(|error| error.to_string())?;
        let store = PlanStore::of(&self.state_dir);
        let stored = store.create(&draft.task, plan, &draft.run_id, draft.started_at);
        let stored = stored.map_err(|error| error.to_string())?;
        trust::remember_own(stored.dir(), &self.environment);
        Ok(stored.reference())
    }

    // Only the user's own plan is read again: of another one, exactly what the user was shown is executed.
    fn open(&self, plan: &PlanRun) -> Result<PlanRun, String> {
        let failed = |error: PlanStoreError| error.to_string();
        let mut stored = PlanStore::of(&self.state_dir).load(&plan.plan.path).map_err(failed)?;
        if !stored.is_approved() || plan.additions.is_some() {
            let additions = plan.additions.clone().or_else(|| stored.additions().map(str::to_owned));
            stored.approve(additions).map_err(failed)?;
        }
        let is_own = trust::is_own(stored.dir(), &self.environment);
        Ok(if is_own { plan_run(&stored) } else { plan.clone() })
    }
}

pub(crate) fn plan_failure(error: &PlanStoreError) -> Failure {
    Failure::usage(error.to_string()).maybe_hint(error.hint())
}

/// Loads a plan. By asking for the execution, the user approves the plan.
pub fn load_for_execution(which: &str, app: &AppContext) -> Result<StoredPlan, Failure> {
    let failed = |error: PlanStoreError| plan_failure(&error);
    app.check_state()?;
    let mut named = which.to_owned();
    if which.contains('/') {
        let what = format!("the plan {which}");
        let real = BaseDirs::of(&app.environment).real_path(&what, Path::new(which))?;
        named = real.to_str().map_or(named, str::to_owned);
    }
    let mut plan = PlanStore::of(&app.state_dir()).load(&named).map_err(failed)?;
    if !which.contains('/') {
        trust::require_own_plan(&mut plan, app)?;
    }
    // The lock keeps another process from executing the plan while its interrupted tasks are reset.
    let lock = plan.lock().map_err(failed)?;
    plan.reset_unfinished().map_err(failed)?;
    if !plan.is_approved() {
        plan.approve(None).map_err(failed)?;
    }
    drop(lock);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::Timestamp;

    #[test]
    fn a_plan_that_this_user_did_not_make_is_executed_as_it_was_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = |what: &str| {
            let text = format!(r#"{{"tasks": [{{"id": "look", "description": "{what}"}}]}}"#);
            althing_plan::find_plan(&text).expect("a plan")
        };
        let made = PlanStore::of(dir.path()).create("goal", plan("Look around"), "r1", Timestamp(0));
        let mut stored = made.expect("a stored plan");
        let shown = plan_run(&stored);
        stored.edit(plan("Do something else")).expect("a changed plan");
        let environment = Environment::read().expect("an environment");
        let plans = StoredPlans { state_dir: dir.path().to_owned(), environment };
        assert_eq!(plans.open(&shown), Ok(shown));
    }
}
