//! The places in the file system that decide what a path leads to.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// How many symlinks are followed, as in the kernel.
const MAX_LINKS: usize = 40;

/// The places that decide what `path`, which is relative to the canonical path `base` or absolute, leads to: every
/// symlink on the way, every directory that is entered by name and left by `..`, and last the place to which `path`
/// leads, which need not exist. If a file stands where `path` needs a directory, that file is the last place.
pub(crate) fn places(base: &Path, path: &Path) -> Vec<PathBuf> {
    let mut at = if path.is_absolute() { PathBuf::from("/") } else { base.to_owned() };
    let (mut rest, mut found) = (names_from_the_end(path), Vec::new());
    // The number of directories that were entered by name, and not left by `..` again, since the start or the last
    // symlink: protecting a symlink also protects the directories above it.
    let (mut entered, mut links) = (0, 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            if entered > 0 {
                found.push(at.clone());
                entered -= 1;
            }
            at.pop();
            continue;
        }
        at.push(&name);
        entered += 1;
        match at.symlink_metadata() {
            Ok(data) if data.is_symlink() => {
                found.push(at.clone());
                links += 1;
                let Some(target) = at.read_link().ok().filter(|_| links <= MAX_LINKS) else { return found };
                at =
                    if target.is_absolute() { PathBuf::from("/") } else { at.parent().unwrap_or(&at).into() };
                entered = 0;
                rest.extend(names_from_the_end(&target));
            }
            // The file could be replaced by a directory.
            Ok(data) if !data.is_dir() && !rest.is_empty() => break,
            Ok(_) | Err(_) => {}
        }
    }
    found.push(at);
    found
}

fn names_from_the_end(path: &Path) -> Vec<OsString> {
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_name).map(|part| part.as_os_str().to_owned()).rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_place_that_decides_where_a_path_leads_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["v1/hooks", "tools", "a/b", "top"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::fs::write(root.join("file"), "").unwrap();
        for (target, link) in
            [("v1", "cur"), ("../cur/hooks", "tools/hooks"), ("a/../v1", "up"), ("loop", "loop")]
        {
            symlink(target, root.join(link)).unwrap();
        }
        symlink(root.join("cur"), root.join("absolute")).unwrap();
        for (path, expected) in [
            ("v1/hooks", &["v1/hooks"] as &[&str]),
            ("none/of/it", &["none/of/it"]),
            ("tools/hooks/x", &["tools/hooks", "cur", "v1/hooks/x"]),
            ("absolute/x", &["absolute", "cur", "v1/x"]),
            ("cur/../v1", &["cur", "v1", "v1"]),
            ("a/b/../../v1", &["a/b", "a", "v1"]),
            ("none/../v1", &["none", "v1"]),
            ("up/hooks", &["up", "a", "v1/hooks"]),
            ("file/hooks/pre-commit", &["file"]),
            ("./v1//./hooks/", &["v1/hooks"]),
        ] {
            let places = places(&root, Path::new(path));
            assert_eq!(places, expected.iter().map(|path| root.join(path)).collect::<Vec<_>>(), "{path}");
        }
        assert_eq!(places(&root.join("top"), Path::new("../v1")), [root.join("v1")]);
        assert_eq!(places(&root, Path::new("loop/x")).len(), MAX_LINKS + 1);
        assert_eq!(places(&root, Path::new("/../x")), [PathBuf::from("/x")]);
    }
}
