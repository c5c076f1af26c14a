//! The names, arguments and descriptions of the task list tools.

use althing_protocol::{PlanStatus, ToolSpec};
use serde_json::{Map, Value, json};

pub(super) const CREATE: &str = "create_task_plan";
pub(super) const GET: &str = "get_task_plan";
pub(super) const ADD: &str = "add_task";
pub(super) const UPDATE: &str = "update_task_status";
pub(super) const EDIT: &str = "edit_task";
pub(super) const DELETE: &str = "delete_task";

pub(super) struct TaskToolSpec {
    name: &'static str,
    description: &'static str,
    takes: &'static [(&'static str, Need)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

use Need::{Optional, Required};

const SPECS: &[TaskToolSpec] = &[
    TaskToolSpec {
        name: CREATE,
        description: "Create your task list; it replaces an earlier one.",
        takes: &[("tasks", Required)],
    },
    TaskToolSpec {
        name: GET,
        description: "Show your task list and the tasks that can begin now.",
        takes: &[],
    },
    TaskToolSpec {
        name: ADD,
        description: "Add a task at the end of your list, or after another task.",
        takes: &[
            ("description", Required),
            ("id", Optional),
            ("depends_on", Optional),
            ("verification", Optional),
            ("after", Optional),
        ],
    },
    TaskToolSpec {
        name: UPDATE,
        description: "Set the status of a task. Completed means verified.",
        takes: &[("id", Required), ("status", Required), ("note", Optional)],
    },
    TaskToolSpec {
        name: EDIT,
        description: "Change a task of your list.",
        takes: &[
            ("id", Required),
            ("description", Optional),
            ("depends_on", Optional),
            ("verification", Optional),
        ],
    },
    TaskToolSpec { name: DELETE, description: "Remove a task from your list.", takes: &[("id", Required)] },
];

pub(super) fn find(name: &str) -> Option<&'static TaskToolSpec> {
    SPECS.iter().find(|spec| spec.name == name)
}

pub(super) fn all(most: usize) -> Vec<ToolSpec> {
    SPECS.iter().map(|spec| spec.to_tool_spec(most)).collect()
}

fn schema(argument: &str, most: usize) -> Value {
    let names: Vec<&str> = PlanStatus::NAMES.iter().map(|(name, _)| *name).collect();
    match argument {
        "tasks" => json!({
            "type": "array", "minItems": 1, "maxItems": most,
            "items": {
                "type": "object",
                "properties": {
                    "id": { "type": "string" },
                    "description": { "type": "string" },
                    "depends_on": { "type": "array", "items": { "type": "string" } },
                    "verification": { "type": "string", "description": "How you will check that it is done." },
                },
                "required": ["description"],
            },
        }),
        "depends_on" => json!({ "type": "array", "items": { "type": "string" } }),
        "status" => json!({ "type": "string", "enum": names }),
        "after" => {
            json!({ "type": "string", "description": "The id of the task after which it is inserted." })
        }
        _ => json!({ "type": "string" }),
    }
}

impl TaskToolSpec {
    pub(super) fn arguments(&self) -> Vec<&'static str> {
        self.takes.iter().map(|(name, _)| *name).collect()
    }

    fn to_tool_spec(&self, most: usize) -> ToolSpec {
        let properties: Map<String, Value> =
            self.takes.iter().map(|(name, _)| ((*name).to_owned(), schema(name, most))).collect();
        let required: Vec<&str> =
            self.takes.iter().filter(|(_, need)| *need == Required).map(|(name, _)| *name).collect();
        ToolSpec {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            }),
        }
    }
}
