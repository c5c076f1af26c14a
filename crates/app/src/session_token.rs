//! The token in the directory of a session or plan: random text whose digest the user's own state directory remembers,
//! so that a copy that somebody else made is not taken for this user's own.

use althing_disk::files::write_all;
use althing_disk::{DirDisk, Disk, DiskError, OpenMode, Owners};
use std::io::{self, Read};
use std::path::Path;

pub(crate) const TOKEN: &str = "token";
const MAX_BYTES: u64 = 64;

/// Writes a new token into a directory of this user. The token is random data of the kernel, so that nobody can compute
/// it, for example from session ids.
pub(crate) fn write(dir: &Path) -> Result<Vec<u8>, DiskError> {
    let (path, disk) = (dir.join(TOKEN), DirDisk::open(dir, Owners::Me)?);
    let made = || {
        let mut random = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let token = format!("{}\n", althing_text::hex(&random)).into_bytes();
        write_all(&mut *disk.open(&path, OpenMode::New)?, &token)?;
        Ok(token)
    };
    made().map_err(DiskError::io("write", &path))
}

/// Reads the token of a directory of this user. A file that is too large to be a token is an error.
pub(crate) fn read(dir: &Path) -> Result<Vec<u8>, DiskError> {
    let (path, disk) = (dir.join(TOKEN), DirDisk::open(dir, Owners::Me)?);
    let token = disk.read_range(&path, 0, MAX_BYTES + 1).map_err(DiskError::io("read", &path))?;
    if token.len() as u64 > MAX_BYTES {
        return Err(DiskError::io("read", &path)(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::{read, write};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn a_token_is_neither_written_to_nor_read_from_a_directory_of_another_user() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("session");
        std::fs::create_dir(&dir).unwrap();
        let token = write(&dir).unwrap();
        assert_eq!(read(&dir).unwrap(), token);
        assert_eq!(dir.join("token").metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write(&dir).is_err(), "a token is never replaced");
        let link = home.path().join("link");
        symlink(&dir, &link).unwrap();
        assert!(read(&link).is_err() && write(&link).is_err());
        if !althing_testkit::is_root() {
            return althing_testkit::skip_unless_ci("only root can give files to another user");
        }
        let give = |path: &std::path::Path, uid| chown(path, Some(uid), Some(uid)).unwrap();
        give(&dir.join("token"), 65534);
        assert!(read(&dir).unwrap_err().to_string().contains("belongs to another user"));
        give(&dir.join("token"), 0);
        read(&dir).unwrap();
        give(&dir, 65534);
        assert!(read(&dir).unwrap_err().to_string().contains("belongs to another user"));
        std::fs::remove_file(dir.join("token")).unwrap();
        assert!(write(&dir).unwrap_err().to_string().contains("belongs to another user"));
        assert!(!dir.join("token").exists());
    }
}
