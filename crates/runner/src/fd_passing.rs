//! Passes an open file descriptor to another of our processes over a unix socket (`SCM_RIGHTS`). The command's stdin
//! reaches a guard this way, because the guard's standard descriptors are its control socket and the command's stdout
//! and stderr.

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Sends one byte even without a descriptor, so that the receiver knows that no descriptor comes.
pub(crate) fn send_fd(socket: impl AsFd, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: &[BorrowedFd<'_>] = file.as_slice();
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("could not attach the file descriptor"));
    }
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

pub(crate) fn receive_fd(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let read = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::empty())?.bytes;
    if read == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file: Option<OwnedFd> = files.flatten().next();
    if let Some(file) = &file {
        // The receiving process has one thread, so no child can be started before the flag is set.
        fcntl_setfd(file, FdFlags::CLOEXEC)?;
    }
    Ok(file)
}
