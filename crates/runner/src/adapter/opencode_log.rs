//! Reads the log of opencode: it shows the id of a conversation while opencode is running in a terminal.

use std::path::Path;

const MAX_READ: u64 = 8 * 1024 * 1024;

/// The id of the first conversation that was begun by the last process that loaded the settings file `marker`.
pub(super) fn conversation(log: &Path, marker: &Path) -> Option<String> {
    // The agent can write to the directory of the log and could put anything there, so only the end of a regular file
    // is read.
    let bytes = althing_disk::read_end(log, MAX_READ).ok()?;
    begun(&String::from_utf8_lossy(&bytes), &marker.to_string_lossy())
}

fn begun(log: &str, marker: &str) -> Option<String> {
    let field = |line: &str, name: &str| -> Option<String> {
        let (_, rest) = line.split_once(&format!(" {name}="))?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    let loads = |line: &&str| line.contains(" message=loading ") && line.trim_end().ends_with(marker);
    let run = field(log.lines().rfind(loads)?, "run")?;
    let created = |line: &&str| {
        line.contains(" message=created id=ses_")
            && line.contains(" parentID=undefined ")
            && field(line, "run").as_ref() == Some(&run)
    };
    field(log.lines().find(created)?, "id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_in_the_place_of_the_log_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (log, mode) = (dir.path().join("opencode.log"), rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &log, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(conversation(&log, Path::new("marker")), None);
    }

    #[test]
    fn the_conversation_is_that_of_the_process_that_loaded_the_tasks_file() {
        let line = |run: &str, rest: &str| format!("timestamp=2026 level=INFO run={run} message={rest}\n");
        let created = |run: &str, id: &str, parent: &str| {
            line(run, &format!("created id={id} slug=x directory=/w parentID={parent} title=\"New session\""))
        };
        let log = [
            line("aa", "loading path=/t/1/opencode-task.json"),
            line("bb", "loading path=/t/2/opencode-task.json"),
            created("aa", "ses_1", "undefined"),
            created("bb", "ses_sub", "ses_0"),
            created("bb", "ses_2", "undefined"),
            created("bb", "ses_3", "undefined"),
        ];
        let log = log.concat();
        assert_eq!(begun(&log, "/t/1/opencode-task.json").as_deref(), Some("ses_1"));
        assert_eq!(begun(&log, "/t/2/opencode-task.json").as_deref(), Some("ses_2"));
        assert_eq!(begun(&log, "/t/3/opencode-task.json"), None);
        assert_eq!(begun("nonsense", "/t/1/opencode-task.json"), None);
    }
}
