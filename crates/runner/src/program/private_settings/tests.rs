//! Tests of private copies of settings.

use super::{PrivateSettings, SettingsPlaces};
use crate::adapter::{AgentAdapter, ClaudeCode, Codex, GeminiCli, GeneratedFile, Opencode};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const MAX_KEPT: u64 = 1 << 20;

struct Places {
    dir: tempfile::TempDir,
}

impl Places {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn make(&self, adapter: &dyn AgentAdapter, files: &[GeneratedFile]) -> PrivateSettings {
        let (copy, shared) = (self.path("copies/one"), self.path("shared"));
        let places = SettingsPlaces { dir: &copy, shared: &shared, max_kept: MAX_KEPT };
        PrivateSettings::make(adapter, &|_| None, &self.path("home"), places, files).unwrap()
    }
}

fn listing(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(at).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(dir).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn what_a_program_leaves_in_kept_directories_has_a_limit() {
    let adapters: [(&dyn AgentAdapter, &str); 4] = [
        (&ClaudeCode, "shared/claude/projects"),
        (&Codex, "copies/one/codex/sessions"),
        (&GeminiCli, "copies/one/gemini/.gemini/tmp"),
        (&Opencode, "copies/one/data/opencode/storage"),
    ];
    for (adapter, kept) in adapters {
        let places = Places::new();
        let large = "x".repeat(3 << 20);
        places.put(&format!("{kept}/before"), &large);
        places.put("outside/large", &large);
        let before = fs::metadata(places.path(&format!("{kept}/before"))).unwrap();
        let clock = || rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        while (clock().tv_sec, clock().tv_nsec) <= (before.ctime(), before.ctime_nsec()) {
            std::thread::yield_now();
        }
        let settings = places.make(adapter, &[]);
        places.put(&format!("{kept}/deep/conversation"), "small");
        places.put(&format!("{kept}/deep/large"), &large);
        symlink(places.path("outside"), places.path(&format!("{kept}/link"))).unwrap();
        drop(settings);
        assert!(!places.path(&format!("{kept}/deep/large")).exists(), "{}", adapter.name());
        for path in ["deep/conversation", "before", "link/large"] {
            assert!(places.path(&format!("{kept}/{path}")).exists(), "{}: {path}", adapter.name());
        }
    }
}

#[test]
fn a_copy_contains_what_the_table_names_and_nothing_else() {
    let places = Places::new();
    for name in [
        "settings.json",
        "agents/a.md",
        "plugins/p/x/y.js",
        "projects/-p/secret.jsonl",
        "history.jsonl",
        "shell-snapshots/s.sh",
        ".credentials.json",
        "unknown/new.json",
    ] {
        places.put(&format!("home/.claude/{name}"), "{}");
    }
    places.put("home/.claude.json", r#"{"hasCompletedOnboarding":true,"mcpServers":{"x":1},"projects":{}}"#);
    places.put("home/.ssh/id", "SECRET");
    symlink(places.path("home/.ssh/id"), places.path("home/.claude/CLAUDE.md")).unwrap();
    symlink(places.path("home/.ssh"), places.path("home/.claude/skills")).unwrap();
    let made = places.make(&ClaudeCode, &[]);
    let copy = places.path("copies/one");
    let expected =
        [".claude.json", ".credentials.json", "agents/a.md", "plugins/p/x/y.js", "projects", "settings.json"];
    assert_eq!(listing(&copy.join("claude")), expected);
    let settings = fs::read_to_string(copy.join("claude/.claude.json")).unwrap();
    assert_eq!(settings, r#"{"hasCompletedOnboarding":true}"#);
    assert_eq!(fs::read_link(copy.join("claude/projects")).unwrap(), places.path("shared/claude/projects"));
    assert_eq!(made.variables, [("CLAUDE_CONFIG_DIR".to_owned(), copy.join("claude").display().to_string())]);
    assert_eq!(made.writable, [places.path("shared/claude/projects"), copy.clone()]);
    let mut readable = made.readable.clone();
    readable.sort();
    assert_eq!(readable, ["agents", "plugins"].map(|name| places.path("home/.claude").join(name)));
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o700);
    drop(made);
    assert!(!copy.exists(), "the copy can contain secrets: {:?}", listing(&copy));
}

#[test]
fn what_a_program_planted_in_its_copy_is_gone_at_the_next_start_except_for_its_conversations() {
    let places = Places::new();
    places.put("home/.gemini/settings.json", "user");
    places.put("home/secret/file", "user");
    let made = places.make(&GeminiCli, &[]);
    let base = places.path("copies/one/gemini/.gemini");
    fs::write(base.join("settings.json"), "planted").unwrap();
    places.put("copies/one/gemini/.gemini/extensions/x/run.sh", "planted");
    places.put("copies/one/gemini/.gemini/tmp/p/chats/c.json", "conversation");
    places.put("copies/one/gemini/.bashrc", "planted");
    places.put("copies/one/other", "planted");
    symlink(places.path("home/secret"), base.join("history")).unwrap();
    fs::set_permissions(base.join("extensions/x"), fs::Permissions::from_mode(0o000)).unwrap();
    // A process that was killed removes nothing.
    std::mem::forget(made.guard);
    let made = places.make(&GeminiCli, &[]);
    assert_eq!(
        listing(&places.path("copies/one")),
        ["gemini/.gemini/settings.json", "gemini/.gemini/tmp/p/chats/c.json"]
    );
    assert_eq!(fs::read_to_string(base.join("settings.json")).unwrap(), "user");
    // The program replaces a directory of the copy by a link.
    fs::rename(places.path("copies/one/gemini"), places.path("copies/one/moved")).unwrap();
    symlink(places.path("home/secret"), places.path("copies/one/gemini")).unwrap();
    drop(made);
    drop(places.make(&GeminiCli, &[]));
    assert_eq!(listing(&places.path("home")), [".gemini/settings.json", "secret/file"]);
    assert_eq!(fs::read_to_string(places.path("home/.gemini/settings.json")).unwrap(), "user");
}

#[test]
fn every_directory_of_a_cli_agent_has_its_own_place_in_the_copy() {
    let places = Places::new();
    places.put("home/.config/opencode/opencode.json", "{}");
    places.put("home/.local/share/opencode/opencode.db", "the user's");
    places.put("home/.cache/opencode/version", "1");
    let made = places.make(&Opencode, &[]);
    assert_eq!(
        listing(&places.path("copies/one")),
        ["cache/opencode/version", "config/opencode/opencode.json"]
    );
    let names: Vec<&str> = made.variables.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"]);
}

#[test]
fn generated_settings_are_part_of_the_copy() {
    let places = Places::new();
    let path = places.path("home/.gemini/settings.json");
    let made = places.make(&GeminiCli, &[GeneratedFile { path, text: "generated".to_owned() }]);
    let copy = places.path("copies/one/gemini/.gemini/settings.json");
    assert_eq!(fs::read_to_string(copy).unwrap(), "generated");
    drop(made);
}

#[test]
fn a_directory_that_is_too_large_to_copy_is_linked() {
    let places = Places::new();
    places.put("home/.codex/skills/small/SKILL.md", "x");
    places.put("home/.codex/skills/large/file", &"x".repeat(5 << 20));
    fs::set_permissions(places.path("home/.codex/skills/small/SKILL.md"), fs::Permissions::from_mode(0o555))
        .unwrap();
    let made = places.make(&Codex, &[]);
    let skills = places.path("copies/one/codex/skills");
    assert_eq!(fs::read_link(skills.join("large")).unwrap(), places.path("home/.codex/skills/large"));
    let mode = fs::symlink_metadata(skills.join("small/SKILL.md")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(made.readable, [places.path("home/.codex/skills")]);
    drop(made);
    assert!(places.path("home/.codex/skills/large/file").exists());
}

#[test]
fn the_next_start_of_any_agent_removes_the_copy_that_a_killed_process_left() {
    let adapters: [(&dyn AgentAdapter, &str, &str); 4] = [
        (&ClaudeCode, "claude/.credentials.json", "claude/projects/p/x.jsonl"),
        (&Codex, "codex/auth.json", "codex/sessions/x.jsonl"),
        (&GeminiCli, "gemini/.gemini/oauth_creds.json", "gemini/.gemini/tmp/x"),
        (&Opencode, "data/opencode/auth.json", "data/opencode/storage/x"),
    ];
    for (adapter, secret, kept) in adapters {
        let places = Places::new();
        let (left, used) = ("copies/0123456789abcdef", "copies/fedcba9876543210");
        for place in [left, used, "copies/shared", "copies/fedcba987654321z"] {
            places.put(&format!("{place}/{secret}"), "{\"token\":\"t\"}");
        }
        for place in [left, used] {
            places.put(&format!("{place}/unknown/{secret}"), "{\"token\":\"t\"}");
        }
        if adapter.name() != "claude" {
            places.put(&format!("{left}/{kept}"), "said");
        }
        let lock = fs::File::open(places.path(used)).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
        let settings = places.make(&ClaudeCode, &[]);
        let expected: &[&str] = if adapter.name() == "claude" { &[] } else { &[kept] };
        let found = if places.path(left).exists() { listing(&places.path(left)) } else { Vec::new() };
        assert_eq!(found, expected, "{}", adapter.name());
        for place in [used, "copies/shared", "copies/fedcba987654321z"] {
            assert!(
                places.path(place).join(secret).exists(),
                "{}: {place} is not to be cleaned",
                adapter.name()
            );
        }
        drop(lock);
        drop(settings);
    }
}

#[test]
fn a_copy_is_locked_as_long_as_it_is_used() {
    let places = Places::new();
    let settings = places.make(&ClaudeCode, &[]);
    let is_free = || {
        let copy = fs::File::open(places.path("copies/one")).unwrap();
        rustix::fs::flock(&copy, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
    };
    assert!(!is_free());
    fs::create_dir_all(places.path("copies/one/claude/projects")).unwrap();
    drop(settings);
    fs::create_dir_all(places.path("copies/one")).unwrap();
    assert!(is_free());
}
