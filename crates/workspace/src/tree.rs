//! Lists the files and directories below a directory for a user, for example to complete a path. It does not enforce
//! an agent's access rules.

use crate::tools::globs;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum size of a `.gitignore` in bytes; a larger one is not applied.
const IGNORE_CAP: u64 = 256 << 10;

type Rules = Arc<Vec<Arc<Gitignore>>>;

/// At most `most` paths below `start`, relative to it, nearest first; directories end with a slash. `.git`, ignored
/// files (`.gitignore`) and names that are not UTF-8 are left out, and links are not followed.
pub fn list_tree(start: &Path, most: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: VecDeque<(PathBuf, Rules)> = VecDeque::from([(PathBuf::new(), Rules::default())]);
    while let Some((below, rules)) = open.pop_front() {
        let rules = with_rules_of(&start.join(&below), &below, rules);
        let Ok(entries) = std::fs::read_dir(start.join(&below)) else { continue };
        let mut names: Vec<(String, bool)> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let is_dir = entry.file_type().ok()?.is_dir();
                Some((entry.file_name().into_string().ok()?, is_dir))
            })
            .collect();
        names.sort_unstable();
        for (name, is_dir) in names {
            let path = below.join(&name);
            if (is_dir && name == ".git") || is_ignored(&rules, &path, is_dir) {
                continue;
            }
            let Some(text) = path.to_str() else { continue };
            found.push(if is_dir { format!("{text}/") } else { text.to_owned() });
            if found.len() >= most {
                return found;
            }
            if is_dir {
                open.push_back((path, Arc::clone(&rules)));
            }
        }
    }
    found
}

fn with_rules_of(dir: &Path, below: &Path, rules: Rules) -> Rules {
    let read = althing_disk::read_regular(&dir.join(".gitignore"), IGNORE_CAP);
    let Some(text) = read.ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { return rules };
    let mut own = GitignoreBuilder::new(below);
    for line in text.lines().filter(|line| globs::refusal(line).is_none()) {
        // git ignores invalid lines, too.
        let _ = own.add_line(None, line);
    }
    match own.build() {
        Ok(own) => {
            let mut all = (*rules).clone();
            all.push(Arc::new(own));
            Arc::new(all)
        }
        Err(_) => rules,
    }
}

fn is_ignored(rules: &Rules, below: &Path, is_dir: bool) -> bool {
    let mut judged = rules.iter().rev().map(|rules| rules.matched(below, is_dir));
    judged.find(|judged| !judged.is_none()).is_some_and(|judged| judged.is_ignore())
}

#[cfg(test)]
mod tests {
    use super::list_tree;

    #[test]
    fn the_tree_is_listed_nearest_first_without_ignored_files_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file(".gitignore", "target/\n*.log\n!keep.log\n");
        file("src/.gitignore", "made.rs\n");
        for name in
            ["a.md", "a.log", "keep.log", "src/lib.rs", "src/made.rs", "made.rs", "target/x", ".git/config"]
        {
            file(name, "");
        }
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let listed =
            [".gitignore", "a.md", "keep.log", "link", "made.rs", "src/", "src/.gitignore", "src/lib.rs"];
        assert_eq!(list_tree(dir.path(), 100), listed);
        assert_eq!(list_tree(dir.path(), 2), listed[..2]);
    }
}
