//! The names, arguments and descriptions of the file tools.

use althing_protocol::ToolSpec;
use serde_json::{Map, Value, json};

pub(crate) struct FileToolSpec {
    pub name: &'static str,
    description: &'static str,
    pub changes: bool,
    /// The first `required` ones are mandatory.
    pub arguments: &'static [&'static str],
    required: usize,
}

const SPECS: &[FileToolSpec] = &[
    FileToolSpec {
        name: "read_file",
        description: "Read a text file with line numbers. Long files are returned in parts: continue with `offset`.",
        changes: false,
        arguments: &["path", "offset", "limit"],
        required: 1,
    },
    FileToolSpec {
        name: "list_directory",
        description: "List a directory: names, sizes, link targets.",
        changes: false,
        arguments: &["path"],
        required: 0,
    },
    FileToolSpec {
        name: "glob",
        description: "Find files whose path below `path` matches a pattern such as `src/**/*.rs`.",
        changes: false,
        arguments: &["pattern", "path"],
        required: 1,
    },
    FileToolSpec {
        name: "search",
        description: "Search files for a regular expression, line by line (ripgrep). Files ignored by .gitignore are skipped.",
        changes: false,
        arguments: &["pattern", "path", "glob", "case_sensitive", "context"],
        required: 1,
    },
    FileToolSpec {
        name: "write_file",
        description: "Write a whole file; missing directories are created. For small changes use edit_file.",
        changes: true,
        arguments: &["path", "content"],
        required: 2,
    },
    FileToolSpec {
        name: "edit_file",
        description: "Replace `old` with `new` in a file. `old` must occur exactly once, unless `replace_all` is set.",
        changes: true,
        arguments: &["path", "old", "new", "replace_all"],
        required: 3,
    },
    FileToolSpec {
        name: "apply_patch",
        description: "Change several files at once, all or none. Format: a line `*** Begin Patch`; then for each file \
            `*** Add File: PATH` with lines that begin with +, or `*** Delete File: PATH`, or `*** Update File: PATH` \
            (then optionally `*** Move to: PATH`) with hunks, each a line `@@` (optionally followed by a line of the file, \
            to locate the change) and lines that begin with a space (unchanged), - (removed) or + (added); then \
            `*** End Patch`. Give about three unchanged lines around each change.",
        changes: true,
        arguments: &["patch"],
        required: 1,
    },
    FileToolSpec {
        name: "delete_file",
        description: "Delete a file.",
        changes: true,
        arguments: &["path"],
        required: 1,
    },
];

pub(crate) fn all() -> impl Iterator<Item = &'static FileToolSpec> {
    SPECS.iter()
}

pub(crate) fn find(name: &str) -> Option<&'static FileToolSpec> {
    SPECS.iter().find(|spec| spec.name == name)
}

fn schema(argument: &str) -> Value {
    let (kind, description) = match argument {
        "path" => ("string", "Absolute, or relative to your workspace."),
        "offset" => ("integer", "First line, counted from 1."),
        "limit" => ("integer", "Number of lines; default 2000."),
        "glob" => ("string", "Only files whose path matches, such as `*.rs`."),
        "case_sensitive" => ("boolean", "Default: true."),
        "context" => ("integer", "Lines to show around each match."),
        "replace_all" => ("boolean", "Replace every occurrence."),
        _ => return json!({"type": "string"}),
    };
    json!({"type": kind, "description": description})
}

impl FileToolSpec {
    pub(crate) fn to_tool_spec(&self) -> ToolSpec {
        let properties: Map<String, Value> =
            self.arguments.iter().map(|name| ((*name).to_owned(), schema(name))).collect();
        let required = self.arguments.get(..self.required).unwrap_or_default();
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
