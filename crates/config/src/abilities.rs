//! What the agents of a run can do in addition to their tools: skills, memories, task lists, planning, subagents.
//! Each ability has a key in `orchestrator.coordination` that switches it on.

use althing_protocol::{PlanningConfig, SkillsConfig, SubagentsConfig, TaskPlanning};

use crate::diagnostic::{Problem, Sink};
use crate::resolve::{count, flag, seconds, text};
use crate::tree::Node;

/// This is also MassGen's default.
const SKILLS_DIRECTORY: &str = ".agent/skills";
/// This is also MassGen's default.
const MAX_TASKS: u32 = 10;

pub(crate) struct Abilities<'a> {
    root: &'a Node,
    coordination: Option<&'a Node>,
}

fn coordination(root: &Node) -> Option<&Node> {
    root.get("orchestrator").and_then(|node| node.get("coordination"))
}

/// `None` if the key is not set, or if `use_skills` is not on.
pub(crate) fn skills_directory(root: &Node) -> Option<&Node> {
    let coordination = coordination(root).filter(|node| flag(node, "use_skills") == Some(true))?;
    let team = || root.get("orchestrator").and_then(|node| node.get("skills_directory"));
    coordination.get("skills_directory").or_else(team)
}

pub(crate) fn check(root: &Node, sink: &mut Sink<'_>) {
    if let Some(node) = skills_directory(root)
        && node.as_text().is_some_and(|path| path.trim().is_empty())
    {
        let problem = Problem::new("`skills_directory` is blank").hint("name a directory, or remove the key");
        sink.error(node.span, "orchestrator.coordination.skills_directory", problem);
    }
    let Some(node) = coordination(root) else { return };
    let time = |key: &str| Some((node.get(key)?, seconds(node, key)?));
    let (min, usual, max) =
        (time("subagent_min_timeout"), time("subagent_default_timeout"), time("subagent_max_timeout"));
    let path = |key: &str| format!("orchestrator.coordination.{key}");
    if let (Some((at, min)), Some((_, max))) = (min, max)
        && min > max
    {
        let problem = Problem::new("`subagent_min_timeout` is greater than `subagent_max_timeout`");
        sink.error(at.span, &path("subagent_min_timeout"), problem.hint("swap the two"));
    } else if let Some((at, usual)) = usual
        && (min.is_some_and(|(_, min)| usual < min) || max.is_some_and(|(_, max)| usual > max))
    {
        let problem = Problem::new("`subagent_default_timeout` is not between the minimum and the maximum");
        let hint = "the nearer limit is used; change the default or that limit";
        sink.warning(at.span, &path("subagent_default_timeout"), problem.hint(hint));
    }
}

/// A time limit that is not configured is adjusted to the configured ones.
fn subagents(node: &Node) -> SubagentsConfig {
    let usual = SubagentsConfig::default();
    let default = seconds(node, "subagent_default_timeout").unwrap_or(usual.default_timeout);
    let max = seconds(node, "subagent_max_timeout");
    let min_timeout = seconds(node, "subagent_min_timeout")
        .unwrap_or_else(|| usual.min_timeout.min(default).min(max.unwrap_or(default)));
    let max_timeout = max.unwrap_or_else(|| usual.max_timeout.max(default).max(min_timeout));
    SubagentsConfig {
        default_timeout: default.min(max_timeout).max(min_timeout),
        min_timeout,
        max_timeout,
        max_concurrent: count(node, "subagent_max_concurrent").unwrap_or(usual.max_concurrent),
        background: node.get("background_subagents").and_then(|node| flag(node, "enabled")) != Some(false),
    }
}

impl<'a> Abilities<'a> {
    pub(crate) fn of(root: &'a Node) -> Self {
        Self { root, coordination: coordination(root) }
    }

    fn enabled_section(&self, switch: &str) -> Option<&'a Node> {
        let node = self.coordination?;
        (flag(node, switch) == Some(true)).then_some(node)
    }

    pub(crate) fn skills(&self) -> Option<SkillsConfig> {
        self.enabled_section("use_skills")?;
        let named = skills_directory(self.root).and_then(Node::as_text);
        Some(SkillsConfig { directory: named.unwrap_or(SKILLS_DIRECTORY).to_owned() })
    }

    pub(crate) fn file_memory(&self) -> bool {
        self.enabled_section("enable_memory_filesystem_mode").is_some()
    }

    pub(crate) fn task_planning(&self) -> Option<TaskPlanning> {
        let node = self.enabled_section("enable_agent_task_planning")?;
        Some(TaskPlanning {
            max_tasks: count(node, "max_tasks_per_plan").unwrap_or(MAX_TASKS),
            as_files: flag(node, "task_planning_filesystem_mode").unwrap_or(false),
        })
    }

    pub(crate) fn planning(&self) -> Option<PlanningConfig> {
        let node = self.enabled_section("enable_planning_mode")?;
        Some(PlanningConfig { instruction: text(node, "planning_mode_instruction") })
    }

    pub(crate) fn subagents(&self) -> Option<SubagentsConfig> {
        self.enabled_section("enable_subagents").map(subagents)
    }
}
