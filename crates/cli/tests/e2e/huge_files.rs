//! Huge and sparse files and deep directories in a workspace: what is stored with an answer, and what is not.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use althing_testkit::Script;
use serde_json::json;

use super::support::{Fixture, items, paths_below};
use super::tools::{call_once, is_presenter, member_action, run, with_commands};

fn disk_usage(dir: &Path) -> u64 {
    let blocks = |path: &std::path::PathBuf| std::fs::symlink_metadata(path).unwrap().blocks();
    paths_below(dir).iter().map(blocks).sum::<u64>() * 512
}

fn with_sparse_file(size: &'static str) -> Fixture {
    with_commands(
        2,
        Script::from_fn(move |request| {
            let command = format!("truncate -s {size} big && echo done > small.txt");
            if is_presenter(request) || request.tool_names().contains(&"vote") {
                return member_action(request);
            }
            call_once(request, "run_command", &json!({ "command": command }))
        }),
    )
}

#[test]
fn a_sparse_file_of_four_tebibytes_is_in_the_snapshot_and_takes_no_space() {
    let fixture = with_sparse_file("4T");
    fixture.run(&["task"]).expect_code(0);
    let run = fixture.session().join("tasks/r1");
    for place in ["snapshots/agent1.1", "snapshots/agent2.1", "views/a/agent2", "views/b/agent1"] {
        let dir = run.join(place);
        assert_eq!(std::fs::metadata(dir.join("big")).unwrap().len(), 4 << 40, "{place}");
        assert_eq!(std::fs::read_to_string(dir.join("small.txt")).unwrap(), "done\n", "{place}");
    }
    let disk_usage = disk_usage(&fixture.althing.state_dir());
    assert!(disk_usage < 4 << 20, "the state takes {disk_usage} bytes");
}

#[test]
fn directories_of_five_thousand_levels_cost_an_answer_its_files_and_nothing_else() {
    let dig = "python3 -c 'import os\nfor n in range(5000): os.mkdir(\"d\"); os.chdir(\"d\")'";
    let script = Script::from_fn(move |request| {
        if is_presenter(request) || request.tool_names().contains(&"vote") {
            return member_action(request);
        }
        call_once(request, "run_command", &json!({ "command": dig }))
    });
    let fixture = with_commands(2, script);
    let output = fixture.run(&["task"]).expect_code(0);
    let said =
        |line: &str| line.contains("accepted, but without its files") && line.contains("nested too deeply");
    assert!(output.stderr.lines().any(said), "{}", output.stderr);
    assert_eq!(items(&fixture.althing.events(), "answer").len(), 2);
    let id = fixture.session().file_name().unwrap().to_string_lossy().into_owned();
    run(&fixture, &["sessions", "remove", &id]).expect_code(0);
}

#[test]
fn the_config_limits_the_data_of_a_snapshot_and_a_larger_answer_counts_without_its_files() {
    let script = Script::from_fn(|request| {
        if is_presenter(request) || request.tool_names().contains(&"vote") {
            return member_action(request);
        }
        let size = if request.model() == "model-a" { 20 } else { 2 };
        let command = format!("head -c {size}000000 /dev/urandom > data");
        call_once(request, "run_command", &json!({ "command": command }))
    });
    let fixture = Fixture::with(2, script, |team| {
        let team = team.rule("max_snapshot_size", "8m");
        team.every_backend("enable_mcp_command_line", true).every_backend("cwd", "here")
    });
    let output = fixture.run(&["task"]).expect_code(0);
    let said = |line: &str| {
        line.contains("a's answer is accepted, but without its files")
            && line.contains("the files contain more than 8 MiB of data, which is the limit")
    };
    assert!(output.stderr.lines().any(said), "{}", output.stderr);
    let snapshots = fixture.session().join("tasks/r1/snapshots");
    let names: Vec<_> =
        std::fs::read_dir(&snapshots).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let dirs = names.iter().filter(|name| snapshots.join(name).is_dir()).count();
    assert_eq!(dirs, 1, "only b's files are stored: {names:?}");
}

#[test]
fn an_answer_counts_without_its_files_if_they_are_too_large_with_a_notice() {
    let fixture = with_sparse_file("9T");
    let output = fixture.run(&["task"]).expect_code(0);
    let why = "a's answer is accepted, but without its files: cannot store a snapshot of the workspace in ";
    let most = "the files have a total size of 9 TiB; the limit is 8 TiB";
    let said = output.stderr.lines().any(|line| line.contains(why) && line.contains(most));
    assert!(said, "{}", output.stderr);
    let events = fixture.althing.events();
    assert_eq!(items(&events, "answer").len(), 2);
    assert!(
        items(&events, "workspace_kept").iter().all(|item| item["error"].as_str().unwrap().contains(most))
    );
    let run = fixture.session().join("tasks/r1");
    assert_eq!(std::fs::read_dir(run.join("snapshots")).unwrap().count(), 0, "nothing is left behind");
    assert!(fixture.server.requests().iter().any(is_presenter), "the run went on to its end");
}
