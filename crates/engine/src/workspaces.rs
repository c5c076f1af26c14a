//! The names of the members' workspaces; defined nowhere else.

use althing_protocol::RunSpec;

/// The maximum length of a workspace's name, without the suffix that distinguishes equal names.
const MAX_NAME_CHARS: usize = 48;

/// The workspace of a member, below the run's directory. It is named after the agent's id, so that the path does not
/// reveal the agent's anonymous number.
pub fn workspace_of(spec: &RunSpec, run_dir: &str, member_index: usize) -> String {
    let name_of = |id: &str| -> String { id.chars().take(MAX_NAME_CHARS).map(safe).collect() };
    // Different ids can become equal names by shortening and replacing characters; a suffix tells them apart.
    let mut taken: Vec<String> = Vec::new();
    for member in spec.members.iter().take(member_index + 1) {
        let name = name_of(member.id.as_str());
        let suffixed = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(suffixed).find(|name| !taken.contains(name));
        taken.extend(free);
    }
    format!("{run_dir}/workspaces/{}", taken.last().map_or("", String::as_str))
}

fn safe(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }
}

#[cfg(test)]
mod tests {
    use super::workspace_of;
    use althing_protocol::{Member, Modes, RunRules, RunSpec};

    fn spec(ids: &[&str]) -> RunSpec {
        let member = |id: &&str| Member {
            id: (*id).into(),
            backend: "offline".into(),
            model: "offline".into(),
            offline: true,
            system_message: None,
            has_tools: true,
            voting_sensitivity: None,
        };
        RunSpec {
            task: "task".into(),
            context: None,
            history: Vec::new(),
            members: ids.iter().map(member).collect(),
            context_paths: Vec::new(),
            modes: Modes::default(),
            rules: RunRules::default(),
            subagent_of: None,
            plan: None,
            execution: None,
            unapproved_paths: Vec::new(),
            tie_break_seed: 0,
        }
    }

    #[test]
    fn a_workspace_is_named_after_its_agent_and_ids_neither_escape_nor_collide() {
        let long = "x".repeat(60);
        let spec = spec(&["gem", "../..", "__/__", "a b", "a/b", "a_b-2", &long, "gem"]);
        let all: Vec<String> =
            (0..spec.members.len()).map(|member_index| workspace_of(&spec, "/run", member_index)).collect();
        let names: Vec<&str> = all.iter().filter_map(|path| path.strip_prefix("/run/workspaces/")).collect();
        assert_eq!(names, ["gem", "_____", "_____-2", "a_b", "a_b-2", "a_b-2-2", &"x".repeat(48), "gem-2"]);
    }
}
