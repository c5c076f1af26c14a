//! Reads files that another program may have created. A FIFO must not block the read, and a device or a huge file must
//! not fill the memory.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let file = open_file_or_dir(path)?;
    if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
}

/// Opens a regular file or a directory for reading; anything else is an error.
pub fn open_file_or_dir(path: &Path) -> io::Result<File> {
    // Without this flag, opening a FIFO waits until a process opens it for writing.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() || kind.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Opens a file of our own for appending, and creates it for this user only if it is missing. The path may be in a
/// directory that somebody else filled, so a symbolic link, a second hard link and anything but a regular file are
/// errors.
pub fn append_own(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path);
    let file = file.map_err(|error| {
        if path.is_symlink() { io::Error::new(io::ErrorKind::InvalidInput, "this is a link") } else { error }
    })?;
    only_own(file)
}

/// The file if it is a regular file with one name. Writing to a file with a second hard link would change a file that
/// may be anywhere.
pub(crate) fn only_own(file: File) -> io::Result<File> {
    let data = file.metadata()?;
    if !data.file_type().is_file() {
        return Err(not_regular());
    }
    if data.nlink() > 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this file has a second name"));
    }
    Ok(file)
}

pub(crate) fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this is not a regular file")
}

/// Reads a whole regular file of at most `limit` bytes; a larger one is an error.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_up_to(open_regular(path)?, limit)
}

/// Reads the first `limit` bytes of a regular file.
pub fn read_start(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the last `limit` bytes of a regular file.
pub fn read_end(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn read_up_to(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let too_large = || {
        let message = format!("the file is larger than {} MB", limit / 1_000_000);
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    };
    if file.metadata()?.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    if file.take(limit + 1).read_to_end(&mut bytes)? as u64 > limit {
        return Err(too_large());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_file_is_appended_to_only_if_nothing_was_planted_in_its_place() {
        let dir = std::env::temp_dir().join(format!("althing-append-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = |name: &str| dir.join(name);
        for name in ["own", "victim", "link", "hard", "fifo"] {
            let _ = std::fs::remove_file(file(name));
        }
        append_own(&file("own")).unwrap();
        append_own(&file("own")).unwrap();
        std::fs::write(file("victim"), "").unwrap();
        std::os::unix::fs::symlink(file("victim"), file("link")).unwrap();
        assert!(append_own(&file("link")).is_err());
        std::fs::hard_link(file("victim"), file("hard")).unwrap();
        assert!(append_own(&file("hard")).is_err());
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, file("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(append_own(&file("fifo")).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_fifo_a_device_and_a_huge_file_are_errors_at_once() {
        let dir = std::env::temp_dir().join(format!("althing-read-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let fifo = dir.join("fifo");
        let _ = std::fs::remove_file(&fifo);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let kind = |path: &Path| crate::Disk::kind(&crate::RealDisk, path).unwrap();
        assert_eq!(kind(&fifo), Some(crate::EntryKind::Special("a named pipe")));
        assert_eq!(kind(Path::new("/dev/zero")), Some(crate::EntryKind::Special("a device")));
        for path in [fifo.as_path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
            assert!(read_regular(path, 1_000_000).is_err(), "{}", path.display());
        }
        assert_eq!(read_regular(&dir, 1).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let sparse = dir.join("sparse");
        File::create(&sparse).unwrap().set_len(3_000_000_000_000).unwrap();
        assert_eq!(read_regular(&sparse, 1_000_000).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(dir.join("small"), "x").unwrap();
        assert_eq!(read_regular(&dir.join("small"), 1).unwrap(), b"x");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
