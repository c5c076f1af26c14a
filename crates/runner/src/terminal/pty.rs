//! Our side of a pseudo-terminal (PTY), in non-blocking mode.

use crate::kernel::{self, TerminalRead};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcgetpgrp, tcsetwinsize};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The size of a terminal. Neither number is ever zero, because programs divide by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

impl TerminalSize {
    pub(crate) const DEFAULT: Self = Self { cols: 120, rows: 40 };
    /// The maximum number of rows and of columns; larger screens would only waste memory.
    const MOST: u16 = 1000;

    pub(crate) fn clamped(cols: u16, rows: u16) -> Self {
        Self { cols: cols.clamp(2, Self::MOST), rows: rows.clamp(1, Self::MOST) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PtyRead {
    Bytes(usize),
    Nothing,
    End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TerminalModes {
    /// Whether the program reads whole lines (canonical mode).
    pub(crate) lines: bool,
    pub(crate) echo: bool,
}

#[derive(Debug)]
pub(crate) struct Pty {
    master: OwnedFd,
    path: PathBuf,
    /// The device and inode of the program's side of the terminal; `None` on systems where they are not used.
    id: Option<(u64, u64)>,
}

impl Pty {
    pub(crate) fn open(size: TerminalSize) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        #[cfg(target_os = "linux")]
        let flags = flags | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = PathBuf::from(OsString::from_vec(ptsname(&master, Vec::new())?.into_bytes()));
        rustix::io::ioctl_fionbio(&master, true)?;
        let id = kernel::terminal_id(&path);
        let pty = Self { master, path, id };
        pty.resize(size)?;
        Ok(pty)
    }

    /// Opens the program's side without making the terminal our controlling terminal.
    pub(crate) fn open_program_end(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.path, flags, Mode::empty())?)
    }

    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.master, size)?)
    }

    pub(crate) fn modes(&self) -> Option<TerminalModes> {
        let modes = tcgetattr(&self.master).ok()?.local_modes;
        let (lines, echo) = (modes.contains(LocalModes::ICANON), modes.contains(LocalModes::ECHO));
        Some(TerminalModes { lines, echo })
    }

    /// Whether a program in the foreground sleeps until something is typed.
    pub(crate) fn reader(&self) -> TerminalRead {
        match (tcgetpgrp(&self.master), self.id) {
            (Ok(group), Some(id)) => kernel::terminal_read(group, id),
            // The terminal has no foreground group before the program starts and after it ended.
            (Err(_), Some(_)) => TerminalRead::None,
            (_, None) => TerminalRead::Unseen,
        }
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> PtyRead {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.master, &mut *buffer)) {
            Ok(0) => PtyRead::End,
            Ok(length) => PtyRead::Bytes(length),
            Err(Errno::AGAIN) => PtyRead::Nothing,
            // Linux reports EIO if the program's side is closed; after any other error nothing can be read either.
            Err(_) => PtyRead::End,
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> usize {
        // An error means that nothing fits at the moment, or that the program's side is closed, which the next `read`
        // reports.
        rustix::io::retry_on_intr(|| rustix::io::write(&self.master, bytes)).unwrap_or(0)
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}
