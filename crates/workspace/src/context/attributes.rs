//! What an undo keeps of a file besides its content and mode: the owner, the group, the ACL, and the extended attributes
//! of the user.

use rustix::fs::{Gid, Uid, XattrFlags, fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

const ACL: &[u8] = b"system.posix_acl_access";
const OF_USER: &[u8] = b"user.";
/// The maximum size of a value, and of all names, in Linux.
const MAX: usize = 64 << 10;

/// Gives the file `to` the attributes of `from`, as far as this user may. Without an ACL in `from`, `to` loses the one
/// that it got from its directory. Fails only if `from` cannot be read.
pub(super) fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let (old, new) = (from.metadata()?, to.metadata()?);
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        let group = Some(Gid::from_raw(old.gid()));
        // Only root may give a file away, but the owner may choose among the groups of the user.
        let _ = fchown(to, Some(Uid::from_raw(old.uid())), group).or_else(|_| fchown(to, None, group));
    }
    let mut names = vec![0; MAX];
    // The file system may have no extended attributes.
    let length = flistxattr(from, names.as_mut_slice()).unwrap_or(0);
    names.truncate(length);
    let names: Vec<&[u8]> =
        names.split(|byte| *byte == 0).filter(|name| *name == ACL || name.starts_with(OF_USER)).collect();
    if !names.contains(&ACL) {
        let _ = fremovexattr(to, std::ffi::OsStr::from_bytes(ACL));
    }
    for name in names {
        let name = std::ffi::OsStr::from_bytes(name);
        let mut value = vec![0; MAX];
        let length = fgetxattr(from, name, value.as_mut_slice())?;
        value.truncate(length);
        let _ = fsetxattr(to, name, &value, XattrFlags::empty());
    }
    Ok(())
}
