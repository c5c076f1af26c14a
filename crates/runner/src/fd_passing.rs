//! Hands an open file to another process of ours, over the socket that joins them.
//!
//! A guard's three standard places are taken (its socket, the command's output, the command's errors), so the command's
//! input travels this way. One byte always goes along, so that whoever has nothing to pass can say so.

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Sends a byte, and the file with it if there is one.
pub(crate) fn send_fd(socket: impl AsFd, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: &[BorrowedFd<'_>] = file.as_slice();
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("no room to pass a file on"));
    }
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Receives exactly that byte, and the file if one came with it.
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
        // Whoever receives has one thread, so nobody can be started in between.
        fcntl_setfd(file, FdFlags::CLOEXEC)?;
    }
    Ok(file)
}
