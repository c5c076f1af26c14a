//! System calls that a confined command may not make: what neither bubblewrap nor Landlock closes.
//!
//! Landlock up to ABI 8 cannot stop a connection to a socket file (an ssh agent, Docker) nor a UDP packet, and no
//! Landlock stops a change of a file's mode, owner, attributes or times anywhere; both sandboxes leave the user's kernel
//! keys in reach; and `io_uring` could do any of it behind a filter's back.
//! Must never be the only wall.

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;
use std::io;

/// Refused in every sandbox: keys, kernel programs, and ways around the other walls.
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

/// Refused where no namespace keeps them apart: shared memory and queues of the user's other processes.
const SHARED: [c_long; 5] =
    [libc::SYS_shmget, libc::SYS_shmat, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open];

/// Refused where files are not hidden: a path's mode, owner and attributes, whoever's it is. A filter cannot see *which*
/// path, so it cannot be left open for the workspace either.
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
    // Newer than the library: setxattrat, removexattrat, file_setattr; the same number on every machine.
    463,
    466,
    469,
];

/// The same by their old names, which newer machines do not have.
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

/// Which sockets stay possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sockets {
    Any,
    NoUnix,
    InternetOnly,
    None,
}

/// What to refuse.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter {
    sockets: Sockets,
    /// Whether namespaces of its own keep shared memory apart and hide files.
    own_namespaces: bool,
}

impl Filter {
    /// Bubblewrap hides socket files and, without network, abstract sockets too. With network, `scoped` says whether
    /// Landlock keeps abstract sockets out of reach; else no unix socket is allowed at all.
    pub(super) fn beside_bubblewrap(network: bool, scoped: bool) -> Self {
        let sockets = if network && !scoped { Sockets::NoUnix } else { Sockets::Any };
        Self { sockets, own_namespaces: true }
    }

    /// Landlock leaves everything to us but TCP and abstract sockets.
    pub(super) fn beside_landlock(network: bool) -> Self {
        Self { sockets: if network { Sockets::InternetOnly } else { Sockets::None }, own_namespaces: false }
    }

    fn rules(&self) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
        let mut refused: Vec<(c_long, Vec<SeccompRule>)> = NEVER.map(|number| (number, Vec::new())).to_vec();
        refused.extend(self.socket()?.map(|rules| (libc::SYS_socket, rules)));
        if !self.own_namespaces {
            let others = SHARED.iter().chain(&METADATA).chain(&OLD_METADATA);
            refused.extend(others.map(|number| (*number, Vec::new())));
            // What `touch` does to a file it has open stays possible: this time, and no other.
            let given =
                |argument| SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
            let path_or_time = vec![SeccompRule::new(vec![given(1)?])?, SeccompRule::new(vec![given(2)?])?];
            refused.push((libc::SYS_utimensat, path_or_time));
        }
        let mut rules = BTreeMap::new();
        for (number, when) in refused {
            // The x32 twin of a call would pass a filter that knows only its 64-bit number.
            #[cfg(target_arch = "x86_64")]
            rules.insert(number | 0x4000_0000, when.clone());
            rules.insert(number, when);
        }
        Ok(rules)
    }

    /// When to refuse a socket; with no condition, always.
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

/// Binds this process, and all it will ever start, to the filter.
pub(super) fn apply(filter: &Filter) -> io::Result<()> {
    let program = compile(filter).map_err(|error| io::Error::other(format!("no seccomp filter: {error}")))?;
    seccompiler::apply_filter(&program).map_err(|error| io::Error::other(format!("seccomp refused: {error}")))
}

fn compile(filter: &Filter) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(filter.rules()?, SeccompAction::Allow, denied, arch)?.try_into()
}
