//! Runs as MCP resources: `althing://runs`, and below it each run's result, log and workspace.

use super::AlthingServer;
use super::calls::in_brief;
use super::runs::{RunDir, RunFile};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

const RUNS: &str = "althing://runs";

/// How many runs are listed; older runs can still be read.
const LISTED: usize = 20;

#[derive(Debug, PartialEq, Eq)]
enum ResourceUri<'a> {
    Runs,
    Result(&'a str),
    File(&'a str, RunDir, &'a str),
}

fn parse_uri(uri: &str) -> Option<ResourceUri<'_>> {
    let rest = uri.strip_prefix(RUNS)?;
    if rest.is_empty() {
        return Some(ResourceUri::Runs);
    }
    let (run, rest) = rest.strip_prefix('/')?.split_once('/')?;
    let (what, path) = rest.split_once('/').unwrap_or((rest, ""));
    match what {
        "result" if path.is_empty() => Some(ResourceUri::Result(run)),
        "log" => Some(ResourceUri::File(run, RunDir::Log, path)),
        "workspace" => Some(ResourceUri::File(run, RunDir::Workspace, path)),
        _ => None,
    }
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |uri: &str, name: &str, description: &str| {
        ResourceTemplate::new(format!("{RUNS}/{uri}"), name).with_description(description)
    };
    vec![
        template("{run_id}/result", "result", "The result of a run.").with_mime_type("application/json"),
        template("{run_id}/log/{+path}", "log", "A file or directory in a run's log directory."),
        template(
            "{run_id}/workspace/{+path}",
            "workspace",
            "A file or directory in the workspace of the agent whose answer is the final answer.",
        ),
    ]
}

impl AlthingServer {
    pub(super) async fn resources(&self) -> Vec<Resource> {
        let mut all = vec![
            Resource::new(RUNS, "runs")
                .with_description("The newest runs with their status.")
                .with_mime_type("application/json"),
        ];
        for view in self.runs.list(LISTED).await {
            let id = &view.run_id;
            let about = |what: &str| format!("{what} of the run: {}", view.task);
            if view.status.is_some() {
                let uri = format!("{RUNS}/{id}/result");
                let result = Resource::new(uri, format!("{id} result")).with_description(about("The result"));
                all.push(result.with_mime_type("application/json"));
            }
            let workspace = Some(("workspace", "The workspace")).filter(|_| view.has_workspace);
            for (place, what) in [("log", "The log")].into_iter().chain(workspace) {
                let uri = format!("{RUNS}/{id}/{place}");
                all.push(Resource::new(uri, format!("{id} {place}")).with_description(about(what)));
            }
        }
        all
    }

    pub(super) async fn read(&self, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let missing = |reason: String| ErrorData::resource_not_found(reason, Some(json!({"uri": uri})));
        let json =
            |value: &Value| ResourceContents::text(value.to_string(), uri).with_mime_type("application/json");
        let contents = match parse_uri(uri) {
            None => return Err(missing(format!("there is no resource `{uri}`; `{RUNS}` lists the runs"))),
            Some(ResourceUri::Runs) => {
                let runs: Vec<Value> = self.runs.list(LISTED).await.iter().map(in_brief).collect();
                json(&json!({"runs": runs}))
            }
            Some(ResourceUri::Result(run)) => match self.runs.result(run).await {
                Some(result) => json(&serde_json::to_value(result).map_err(|error| {
                    ErrorData::internal_error(format!("the result cannot be written as JSON: {error}"), None)
                })?),
                None if self.runs.view(run).await.is_some() => {
                    return Err(missing(format!("the run `{run}` has not ended yet")));
                }
                None => return Err(missing(self.unknown(run).await)),
            },
            Some(ResourceUri::File(run, place, path)) => match self.runs.file(run, place, path).await {
                Ok(RunFile::Text(text)) => ResourceContents::text(text, uri).with_mime_type("text/plain"),
                Ok(RunFile::Directory(paths)) => json(&json!({"files": paths})),
                Err(reason) => return Err(missing(format!("there is no resource `{uri}`: {reason}"))),
            },
        };
        Ok(ReadResourceResult::new(vec![contents]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_runs_and_their_files() {
        let cases = [
            ("althing://runs", Some(ResourceUri::Runs)),
            ("althing://runs/s1.r1/result", Some(ResourceUri::Result("s1.r1"))),
            ("althing://runs/s1.r1/log", Some(ResourceUri::File("s1.r1", RunDir::Log, ""))),
            (
                "althing://runs/s1.r1/workspace/a/b.txt",
                Some(ResourceUri::File("s1.r1", RunDir::Workspace, "a/b.txt")),
            ),
            ("althing://runs/s1.r1", None),
            ("althing://runs/s1.r1/secrets", None),
            ("althing://runsx/s1.r1/log", None),
            ("file:///etc/passwd", None),
        ];
        for (uri, wanted) in cases {
            assert_eq!(parse_uri(uri), wanted, "{uri}");
        }
    }
}
