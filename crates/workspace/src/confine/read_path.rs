//! Reads one path below a directory on behalf of an outside caller. No path leads out of the directory.

use super::ConfinedDir;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Component, Path};

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathContents {
    /// The text of a file.
    Text(String),
    /// The sorted names in a directory; names of subdirectories end in a slash.
    Names(Vec<String>),
}

/// Reads `path` below `root`; the empty path is `root` itself. Files larger than `limit` bytes and files that are not
/// UTF-8 are refused.
pub fn read_confined_path(root: &Path, path: &str, limit: u64) -> io::Result<PathContents> {
    let path = Path::new(path);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain || path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path leads out of its directory"));
    }
    let root = ConfinedDir::open(root)?;
    let parts: Vec<&OsStr> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let Some((name, above)) = parts.split_last() else { return names(&root) };
    let mut dir = root;
    for part in above {
        dir = dir.open_dir(part)?;
    }
    if let Ok(inner) = dir.open_dir(name) {
        return names(&inner);
    }
    let (file, _) = dir.open_file(name)?;
    let mut text = String::new();
    file.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    Ok(PathContents::Text(text))
}

fn names(dir: &ConfinedDir) -> io::Result<PathContents> {
    let mut names = Vec::new();
    for name in dir.names()? {
        let slash = if dir.open_dir(&name).is_ok() { "/" } else { "" };
        names.push(format!("{}{slash}", name.to_string_lossy()));
    }
    names.sort();
    Ok(PathContents::Names(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_root_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("sub/a.txt"), "hello").unwrap();
        std::fs::write(dir.path().join("secret"), "no").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        assert_eq!(read_confined_path(&root, "sub/a.txt", 100).unwrap(), PathContents::Text("hello".into()));
        assert_eq!(read_confined_path(&root, "sub", 100).unwrap(), PathContents::Names(vec!["a.txt".into()]));
        assert!(
            matches!(read_confined_path(&root, "", 100).unwrap(), PathContents::Names(names) if names.contains(&"sub/".into()))
        );
        for out in ["../secret", "/etc/passwd", "link", "up/secret", "sub/../../secret", "absent"] {
            assert!(read_confined_path(&root, out, 100).is_err(), "{out}");
        }
        assert!(read_confined_path(&root, "sub/a.txt", 3).is_err(), "too large");
    }
}
