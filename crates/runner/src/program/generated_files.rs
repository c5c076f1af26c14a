//! Files that are created for one start of a program, and removed or restored when the program has ended.

use crate::adapter::GeneratedFile;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const MOST_BYTES: u64 = 4 << 20;

/// An existing file, which may belong to the user, is renamed and kept next to the new file. If Althing is killed
/// before the existing file is restored, the next start that generates the same file restores it.
#[derive(Debug, Default)]
pub(crate) struct GeneratedFiles(Vec<(PathBuf, Before, DirId)>);

/// The device and inode of a file's directory. If the program replaced that directory, nothing is removed or restored
/// there.
type DirId = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Aside,
}

impl GeneratedFiles {
    /// Our keys are merged into an existing file that contains JSON; any other existing regular file is replaced. A
    /// path that is a symlink or a directory is an error.
    pub(crate) fn make(files: &[GeneratedFile]) -> Result<Self, String> {
        let mut made = Self::default();
        for file in files {
            made.add(file).map_err(|error| format!("could not write {}: {error}", file.path.display()))?;
        }
        Ok(made)
    }

    fn add(&mut self, file: &GeneratedFile) -> io::Result<()> {
        let parent = file.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent)?;
        let dir = real_dir(parent)?;
        let aside = aside(&file.path);
        if aside.symlink_metadata().is_ok() {
            // A process that was killed left this file behind.
            std::fs::rename(&aside, &file.path)?;
        }
        let (text, before) = match file.path.symlink_metadata() {
            Ok(data) if data.is_file() => {
                // The agent can write to this file and could quickly create a sparse file of terabytes.
                if data.len() > MOST_BYTES {
                    return Err(io::Error::other(format!(
                        "the existing file has more than {MOST_BYTES} bytes"
                    )));
                }
                let text = added(&althing_disk::read_regular(&file.path, MOST_BYTES)?, &file.text)?;
                std::fs::rename(&file.path, &aside)?;
                (text, Before::Aside)
            }
            Ok(_) => return Err(io::Error::other("it exists and is not a regular file")),
            Err(_) => (file.text.clone(), Before::Nothing),
        };
        // The file is recorded before it is written, so that a partly written file is removed, too.
        self.0.push((file.path.clone(), before, dir));
        write(&file.path, text.as_bytes())
    }
}

impl Drop for GeneratedFiles {
    fn drop(&mut self) {
        for (path, before, dir) in self.0.drain(..).rev() {
            let aside = aside(&path);
            if !path.parent().is_some_and(|parent| real_dir(parent).is_ok_and(|now| now == dir)) {
                tracing::warn!(path = %path.display(), "the program replaced the directory; nothing is restored in it");
                continue;
            }
            let put_back = match before {
                Before::Aside => std::fs::rename(&aside, &path),
                Before::Nothing => std::fs::remove_file(&path),
            };
            if let (Before::Aside, Err(error)) = (before, put_back) {
                let (path, aside) = (path.display(), aside.display());
                tracing::warn!(%path, %aside, %error, "could not restore a file; it is at `aside`");
            }
            // `remove_dir` removes the directory only if it is empty.
            let _ = path.parent().map(std::fs::remove_dir);
        }
    }
}

fn real_dir(path: &Path) -> io::Result<DirId> {
    let data = path.symlink_metadata()?;
    if !data.is_dir() {
        return Err(io::Error::other(format!("{} is not a directory", path.display())));
    }
    Ok((data.dev(), data.ino()))
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".before-althing");
    path.with_file_name(name)
}

/// `create_new` never writes through a symlink.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Merges our keys into the existing settings; returns only our text if the existing file is not JSON. Fails if the
/// existing file is JSON and ours is not.
fn added(before: &[u8], ours: &str) -> io::Result<String> {
    let Ok(mut settings) = serde_json::from_slice::<Value>(before) else { return Ok(ours.to_owned()) };
    merge(&mut settings, serde_json::from_str(ours)?);
    Ok(settings.to_string())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

#[cfg(test)]
mod tests {
    use super::GeneratedFiles;
    use crate::adapter::GeneratedFile;

    #[test]
    fn existing_files_are_kept_aside_and_restored_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("a/settings.json"), dir.path().join("b/policy.toml"));
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(&old, r#"{"theme":"dark","servers":{"x":1}}"#).unwrap();
        let files = [
            GeneratedFile { path: old.clone(), text: r#"{"servers":{"y":2}}"#.to_owned() },
            GeneratedFile { path: new.clone(), text: "rule".to_owned() },
        ];
        let made = GeneratedFiles::make(&files).unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), r#"{"theme":"dark","servers":{"x":1,"y":2}}"#);
        assert_eq!(std::fs::read_to_string(&new).unwrap(), "rule");
        drop(made);
        assert_eq!(std::fs::read_to_string(&old).unwrap(), r#"{"theme":"dark","servers":{"x":1}}"#);
        assert_eq!(std::fs::read_dir(dir.path().join("a")).unwrap().count(), 1);
        assert!(!dir.path().join("b").exists());
    }

    #[test]
    fn a_directory_that_the_program_replaced_with_a_symlink_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (settings, editor) = (dir.path().join("workspace/.gemini"), dir.path().join("editor"));
        std::fs::create_dir_all(&editor).unwrap();
        std::fs::write(editor.join("settings.json"), "the user's").unwrap();
        let files = [GeneratedFile { path: settings.join("settings.json"), text: "{}".to_owned() }];
        let made = GeneratedFiles::make(&files).unwrap();
        std::fs::rename(&settings, dir.path().join("workspace/moved")).unwrap();
        std::os::unix::fs::symlink(&editor, &settings).unwrap();
        drop(made);
        assert_eq!(std::fs::read_to_string(editor.join("settings.json")).unwrap(), "the user's");
        let refused = GeneratedFiles::make(&files).unwrap_err();
        assert!(refused.contains("is not a directory"), "{refused}");
        assert_eq!(std::fs::read_dir(&editor).unwrap().count(), 1);
    }

    #[test]
    fn a_settings_file_of_terabytes_is_refused_without_being_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let files = [GeneratedFile { path: path.clone(), text: r#"{"servers":{"y":2}}"#.to_owned() }];
        let refused = GeneratedFiles::make(&files).unwrap_err();
        assert!(refused.contains("the existing file has more than 4194304 bytes"), "{refused}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 40, "the file is unchanged");
    }

    #[test]
    fn files_that_a_killed_process_did_not_restore_are_restored_by_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        let own = "{ \"theme\": \"dark\" } // the user's own words";
        std::fs::write(&path, own).unwrap();
        let files = [GeneratedFile { path: path.clone(), text: r#"{"servers":{"y":2}}"#.to_owned() }];
        std::mem::forget(GeneratedFiles::make(&files).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), r#"{"servers":{"y":2}}"#);
        drop(GeneratedFiles::make(&files).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), own);
    }
}
