//! Instructions, skills and notes: what agents are given from files, and what must not reach them.

use super::fixture::{SECRET, context, temp, write};
use crate::{FileHost, FilePolicy, Memory, ToolSet, find_skills, project_instructions};
use althing_protocol::ContextPath;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn host(base: &Path, context: Vec<ContextPath>) -> FileHost {
    fs::create_dir_all(base.join("workspace")).unwrap();
    let policy = FilePolicy { workspace: base.join("workspace"), context, ..FilePolicy::default() };
    FileHost::open(&policy, ToolSet::All).unwrap()
}

#[test]
fn instructions_are_ordered_by_depth_deduplicated_and_limited_to_readable_files() {
    let dir = temp();
    let base = fs::canonicalize(dir.path()).unwrap();
    write(&base.join("project/AGENTS.md"), "of the project\n");
    write(&base.join("project/CLAUDE.md"), "of the project\n");
    write(&base.join("project/part/CLAUDE.md"), "of the part\n");
    write(&base.join("AGENTS.md"), "not given\n");
    write(&base.join("outside/secret.md"), SECRET);
    fs::create_dir_all(base.join("other")).unwrap();
    symlink(base.join("outside/secret.md"), base.join("other/AGENTS.md")).unwrap();
    let paths = ["project", "project/part", "other"].map(|path| context(&base.join(path), false, &[]));
    let output = project_instructions(&host(&base, paths.to_vec()), &paths);
    let texts: Vec<&str> = output.iter().map(|page| page.text.as_str()).collect();
    assert_eq!(texts, ["of the part\n", "of the project\n"]);
    assert_eq!(output[1].path, base.join("project/AGENTS.md").display().to_string());
    assert!(output.iter().all(|page| page.whole));
}

#[test]
fn long_instructions_are_truncated_at_a_character_boundary() {
    let dir = temp();
    let base = fs::canonicalize(dir.path()).unwrap();
    write(&base.join("a/AGENTS.md"), &"þ".repeat(20_000));
    write(&base.join("b/AGENTS.md"), &"x".repeat(100_000));
    write(&base.join("c/AGENTS.md"), "no room is left for this one");
    let paths = ["a", "b", "c"].map(|path| context(&base.join(path), false, &[]));
    let output = project_instructions(&host(&base, paths.to_vec()), &paths);
    assert_eq!(output.iter().map(|page| page.text.len()).collect::<Vec<_>>(), [16 * 1024, 16 * 1024]);
    assert!(output.iter().all(|page| !page.whole));
}

#[test]
fn skills_are_found_by_front_matter_and_unusable_ones_are_reported() {
    let dir = temp();
    let base = fs::canonicalize(dir.path()).unwrap();
    let skill = |place: &str, text: &str| write(&base.join(place).join("SKILL.md"), text);
    skill("own/pdf", "---\nname: pdf\ndescription: |\n  Reads and\n  writes PDF.\n---\nUse pdftotext.\n");
    skill("own/unnamed", "---\ndescription: Has no name.\n---\n");
    skill("own/silent", "# Says nothing of itself\n");
    skill("usual/pdf", "---\nname: pdf\ndescription: Another.\n---\n");
    write(&base.join("own/README.md"), "no skill");
    write(&base.join("elsewhere/SKILL.md"), "---\ndescription: outside\n---\n");
    symlink(base.join("elsewhere"), base.join("own/linked")).unwrap();
    let dirs = [base.join("own"), base.join("usual"), base.join("missing"), base.join("own")];
    let skills = find_skills(&dirs, &base);
    let found: Vec<(&str, &str)> =
        skills.found.iter().map(|skill| (skill.name.as_str(), skill.description.as_str())).collect();
    assert_eq!(found, [("pdf", "Reads and writes PDF."), ("unnamed", "Has no name.")]);
    assert_eq!(skills.found[0].path, base.join("own/pdf/SKILL.md").display().to_string());
    assert_eq!(skills.dirs, [base.join("own"), base.join("usual")]);
    assert_eq!(skills.notices.len(), 2, "{:?}", skills.notices);
    assert!(skills.notices[0].contains("silent") && skills.notices[0].contains("description"));
    assert!(skills.notices[1].contains("already a skill `pdf`"));
}

#[test]
fn notes_carry_over_between_runs_and_deleted_notes_stay_deleted() {
    let dir = temp();
    let base = fs::canonicalize(dir.path()).unwrap();
    let store = base.join("store");
    let workspace = |run: &str| {
        let path = base.join(run);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let first = Memory::open(&workspace("one"), &store).unwrap();
    assert_eq!(first.notes().unwrap(), crate::Notes::default());
    write(&first.dir().join("short_term/plan.md"), "Ask for tea.\n");
    write(&first.dir().join("short_term/gone.md"), "Will go.\n");
    write(&first.dir().join("long_term/port.md"), "---\ndescription: The port\n---\nIt is 8080.\n");
    write(&first.dir().join("long_term/tea.md"), "# How tea is made\n\nSlowly.\n");
    first.save().unwrap();
    fs::remove_file(first.dir().join("short_term/gone.md")).unwrap();
    first.save().unwrap();

    let second = Memory::open(&workspace("two"), &store).unwrap();
    let notes = second.notes().unwrap();
    assert_eq!(notes.short_term.len(), 1);
    assert_eq!(notes.short_term[0].text, "Ask for tea.\n");
    assert_eq!(notes.short_term[0].path, base.join("two/memory/short_term/plan.md").display().to_string());
    let about: Vec<&str> = notes.long_term.iter().map(|(_, about)| about.as_str()).collect();
    assert_eq!(about, ["The port", "How tea is made"]);

    // A second open does not copy the notes again: what the agent deleted in this run stays deleted.
    fs::remove_file(second.dir().join("short_term/plan.md")).unwrap();
    assert!(Memory::open(&workspace("two"), &store).unwrap().notes().unwrap().short_term.is_empty());
}

#[test]
fn notes_and_skills_behind_symbolic_links_are_neither_read_nor_written_nor_deleted() {
    let dir = temp();
    let base = fs::canonicalize(dir.path()).unwrap();
    let private = base.join("home/.ssh");
    write(&private.join("id_rsa"), "the key");
    fs::create_dir_all(base.join("workspace")).unwrap();
    for link in ["memory", "memory/agent", "memory/agent/short_term"] {
        let project = base.join(link.replace('/', "-"));
        let link = project.join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&private, &link).unwrap();
        let store = project.join("memory/agent");
        let refused = Memory::open(&base.join("workspace"), &store).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(base.join("workspace/memory")).unwrap();
        let memory = Memory::open(&base.join("workspace"), &store).unwrap();
        write(&memory.dir().join("short_term/authorized_keys"), "another key");
        fs::remove_dir_all(project.join("memory")).unwrap_or_default();
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&private, &link).unwrap();
        memory.save().unwrap_err();
        fs::remove_dir_all(base.join("workspace/memory")).unwrap();
        assert_eq!(fs::read_dir(&private).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(private.join("id_rsa")).unwrap(), "the key");
    }
    write(&base.join("home/secret/SKILL.md"), "---\ndescription: A skill\n---\n");
    let skills = base.join("found/.agent/skills");
    fs::create_dir_all(skills.parent().unwrap()).unwrap();
    symlink(base.join("home"), &skills).unwrap();
    let found = find_skills(std::slice::from_ref(&skills), &base.join("found"));
    assert!(found.dirs.is_empty() && found.found.is_empty(), "{found:?}");
    assert!(found.notices[0].contains("symbolic link"), "{:?}", found.notices);
    let named = find_skills(&[skills], &base.join("elsewhere"));
    assert_eq!(named.found.len(), 1, "outside the working directory, the user's own links are followed");
}

#[test]
fn no_note_that_runs_code_later_reaches_the_store() {
    let dir = temp();
    let base = fs::canonicalize(dir.path()).unwrap();
    fs::create_dir_all(base.join("one")).unwrap();
    let memory = Memory::open(&base.join("one"), &base.join("store")).unwrap();
    for name in [".envrc", ".mcp.json", ".Env", ".bashrc", "lefthook.yml", "plan.md"] {
        write(&memory.dir().join("short_term").join(name), "x\n");
    }
    memory.save().unwrap();
    let stored = fs::read_dir(base.join("store/short_term")).unwrap();
    let stored: Vec<_> = stored.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(stored, ["plan.md"]);
}

#[test]
fn a_failed_save_deletes_no_stored_note() {
    let dir = temp();
    let base = fs::canonicalize(dir.path()).unwrap();
    fs::create_dir_all(base.join("one")).unwrap();
    let memory = Memory::open(&base.join("one"), &base.join("store")).unwrap();
    write(&memory.dir().join("short_term/b.md"), "Keep me.\n");
    memory.save().unwrap();
    // A directory cannot be replaced by a note.
    write(&base.join("store/short_term/a.md/x"), "");
    write(&memory.dir().join("short_term/a.md"), "New.\n");
    memory.save().unwrap_err();
    assert_eq!(fs::read_to_string(base.join("store/short_term/b.md")).unwrap(), "Keep me.\n");
}

#[test]
fn unreadable_stored_notes_are_an_error_and_stay_unchanged() {
    let dir = temp();
    let base = fs::canonicalize(dir.path()).unwrap();
    fs::create_dir_all(base.join("one")).unwrap();
    // Reading a file as a directory fails even for root.
    write(&base.join("store/short_term"), "Keep me.\n");
    let error = Memory::open(&base.join("one"), &base.join("store")).unwrap_err();
    assert!(error.to_string().contains("store/short_term"), "{error}");
    assert_eq!(fs::read_to_string(base.join("store/short_term")).unwrap(), "Keep me.\n");
}

#[test]
fn no_note_leads_out_of_the_workspace_or_the_store() {
    let dir = temp();
    let base = fs::canonicalize(dir.path()).unwrap();
    write(&base.join("outside/secret.md"), SECRET);
    fs::create_dir_all(base.join("one")).unwrap();
    let memory = Memory::open(&base.join("one"), &base.join("store")).unwrap();
    symlink(base.join("outside/secret.md"), memory.dir().join("short_term/link.md")).unwrap();
    write(&memory.dir().join("short_term/large.md"), &"x".repeat(100_000));
    fs::remove_dir(memory.dir().join("long_term")).unwrap();
    symlink(base.join("outside"), memory.dir().join("long_term")).unwrap();
    let notes = memory.notes().unwrap();
    assert!(!format!("{notes:?}").contains(SECRET));
    assert!(!notes.short_term[0].whole, "a long note is cut");
    memory.save().unwrap();
    assert!(fs::read_dir(base.join("store/short_term")).unwrap().next().is_none());
    assert!(fs::read_dir(base.join("store/long_term")).unwrap().next().is_none());
    assert_eq!(fs::read_to_string(base.join("outside/secret.md")).unwrap(), SECRET);
}
