//! A seccomp filter for system calls that neither bubblewrap nor Landlock restricts.
//!
//! The filter is needed because Landlock up to ABI 8 cannot prevent connections to socket files (an SSH agent,
//! Docker) or UDP packets, no version of Landlock prevents changing the mode, owner, attributes or times of arbitrary
//! files, and neither sandbox protects the user's kernel keyring. The filter also denies `io_uring`, with which a
//! command could otherwise bypass the filter. The filter is never the only protection.

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;
use std::io;

/// System calls that are denied in every sandbox: keyrings, kernel programs, and ways around the other
/// restrictions.
const NEVER: [c_long; 12] = [
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
];

/// System calls that are denied in a sandbox without an IPC namespace (Landlock): they would give access to shared
/// memory, semaphores and message queues of the user's other processes.
const SHARED: [c_long; 5] =
    [libc::SYS_shmget, libc::SYS_shmat, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open];

/// System calls that are denied in a sandbox that does not hide files (Landlock): they change the mode, owner and
/// attributes of any path. A filter cannot see the path, so they are denied in the workspace, too.
const METADATA: [c_long; 14] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    // System calls that the library does not name yet: setxattrat, removexattrat, file_setattr. The numbers
    // are the same on every architecture.
    463,
    466,
    469,
];

/// Old variants of the calls in `METADATA` and of `utimensat`, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD_METADATA: [c_long; 6] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_METADATA: [c_long; 0] = [];

/// Which sockets can be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sockets {
    Any,
    NoUnix,
    InternetOnly,
    None,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter {
    sockets: Sockets,
    /// Whether the command has its own namespaces, which separate shared memory and hide files.
    own_namespaces: bool,
}

impl Filter {
    /// The filter for bubblewrap, which hides socket files and, without network, abstract sockets as well. With
    /// network, `scoped` says whether Landlock blocks abstract sockets; if not, no unix socket is allowed at
    /// all.
    pub(super) fn beside_bubblewrap(network: bool, scoped: bool) -> Self {
        let sockets = if network && !scoped { Sockets::NoUnix } else { Sockets::Any };
        Self { sockets, own_namespaces: true }
    }

    /// The filter for Landlock, which itself restricts no sockets other than TCP and abstract ones.
    pub(super) fn beside_landlock(network: bool) -> Self {
        Self { sockets: if network { Sockets::InternetOnly } else { Sockets::None }, own_namespaces: false }
    }

    fn rules(&self) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
        let mut refused: Vec<(c_long, Vec<SeccompRule>)> = NEVER.map(|number| (number, Vec::new())).to_vec();
        refused.extend(self.socket()?.map(|rules| (libc::SYS_socket, rules)));
        if !self.own_namespaces {
            let others = SHARED.iter().chain(&METADATA).chain(&OLD_METADATA);
            refused.extend(others.map(|number| (*number, Vec::new())));
            // Setting an open file to the current time, as `touch` does, stays possible.
            let given =
                |argument| SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
            let path_or_time = vec![SeccompRule::new(vec![given(1)?])?, SeccompRule::new(vec![given(2)?])?];
            refused.push((libc::SYS_utimensat, path_or_time));
        }
        let mut rules = BTreeMap::new();
        for (number, when) in refused {
            // Also denies the x32 variant of the call, which has another number.
            #[cfg(target_arch = "x86_64")]
            rules.insert(number | 0x4000_0000, when.clone());
            rules.insert(number, when);
        }
        Ok(rules)
    }

    /// When to deny creating a socket: `None` means never, and an empty list means always.
    fn socket(&self) -> Result<Option<Vec<SeccompRule>>, seccompiler::BackendError> {
        let family = |operator, value: i32| {
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value.unsigned_abs().into())
        };
        Ok(match self.sockets {
            Sockets::Any => None,
            Sockets::NoUnix => Some(vec![SeccompRule::new(vec![family(SeccompCmpOp::Eq, libc::AF_UNIX)?])?]),
            Sockets::InternetOnly => Some(vec![SeccompRule::new(vec![
                family(SeccompCmpOp::Ne, libc::AF_INET)?,
                family(SeccompCmpOp::Ne, libc::AF_INET6)?,
                family(SeccompCmpOp::Ne, libc::AF_NETLINK)?,
            ])?]),
            Sockets::None => Some(Vec::new()),
        })
    }
}

/// Applies the filter to this process and everything it will start.
pub(super) fn apply(filter: &Filter) -> io::Result<()> {
    let program = compile(filter)
        .map_err(|error| io::Error::other(format!("could not build the seccomp filter: {error}")))?;
    seccompiler::apply_filter(&program)
        .map_err(|error| io::Error::other(format!("could not apply the seccomp filter: {error}")))
}

fn compile(filter: &Filter) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(filter.rules()?, SeccompAction::Allow, denied, arch)?.try_into()
}
