//! A pseudo-terminal: our end of it, which never blocks.
//!
//! Knows nothing of what is written or read; only how much at once, and that a terminal whose other end was closed is
//! not an error but an end.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// How many columns and rows a terminal has. Never none: programs divide by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

impl TerminalSize {
    /// What a program gets before anybody attaches.
    pub(crate) const DEFAULT: Self = Self { cols: 120, rows: 40 };
    /// Beyond this a screen costs more memory than any display shows.
    const MOST: u16 = 1000;

    /// The nearest size that works.
    pub(crate) fn clamped(cols: u16, rows: u16) -> Self {
        Self { cols: cols.clamp(2, Self::MOST), rows: rows.clamp(1, Self::MOST) }
    }
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PtyRead {
    /// This many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// Nothing ever again: nobody holds the other end.
    End,
}

/// Our end of a pseudo-terminal.
#[derive(Debug)]
pub(crate) struct Pty {
    master: OwnedFd,
    path: PathBuf,
}

impl Pty {
    /// A new one.
    pub(crate) fn open(size: TerminalSize) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        #[cfg(target_os = "linux")]
        let flags = flags | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = PathBuf::from(OsString::from_vec(ptsname(&master, Vec::new())?.into_bytes()));
        rustix::io::ioctl_fionbio(&master, true)?;
        let pty = Self { master, path };
        pty.resize(size)?;
        Ok(pty)
    }

    /// The program's end. Only opened, not taken over: that is for the program's own session to do.
    pub(crate) fn open_program_end(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.path, flags, Mode::empty())?)
    }

    /// Changes its size; the program is told by the kernel.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.master, size)?)
    }

    /// Reads what is there.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> PtyRead {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.master, &mut *buffer)) {
            Ok(0) => PtyRead::End,
            Ok(length) => PtyRead::Bytes(length),
            Err(Errno::AGAIN) => PtyRead::Nothing,
            // EIO is how Linux says that the other end is closed; nothing else can be read after any other error either.
            Err(_) => PtyRead::End,
        }
    }

    /// Writes as much as fits.
    pub(crate) fn write(&self, bytes: &[u8]) -> usize {
        // An error means that nobody can read it any more, which reading tells soon enough.
        rustix::io::retry_on_intr(|| rustix::io::write(&self.master, bytes)).unwrap_or(0)
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}
