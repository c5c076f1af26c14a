//! A seccomp filter that denies what the sandbox in use, bubblewrap or Landlock, does not restrict by itself. The filter
//! is never the only protection.
//!
//! Both sandboxes lack, for example, protection of the user's kernel keyring. Landlock lacks more, which bubblewrap's
//! namespaces and mounts restrict. Up to ABI 8, it cannot prevent connections to socket files (an SSH agent, Docker) or
//! UDP packets. No version of Landlock prevents changing the limits and priorities of other processes, using their
//! message queues, or changing the mode, owner, attributes or times of arbitrary files.

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;

/// Denied in bubblewrap and in Landlock: keyrings, the kernel's log, kernel programs, and ways around the other
/// restrictions, such as `io_uring`.
const NEVER: [c_long; 16] = [
    libc::SYS_memfd_secret,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_syslog,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
];

/// Denied in a sandbox without an IPC namespace (Landlock): with these calls a command could use or remove shared
/// memory, semaphores and message queues of the user's other processes. System V identifiers can be guessed, so the
/// calls that take one are denied as well as the calls that look one up.
const SHARED: [c_long; 17] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
];

/// Denied in a sandbox that does not hide files (Landlock): these calls change the mode, owner and attributes of any
/// path, or report what happens in any directory. A filter cannot see the path, so they are denied in the workspace,
/// too.
const ANY_PATH: [c_long; 9] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    // file_setattr, which the library does not name yet. The number is the same on every architecture.
    469,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
];

/// Old variants of the calls in `ANY_PATH` and of `utimensat`, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD_ANY_PATH: [c_long; 6] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_ANY_PATH: [c_long; 0] = [];

/// Denied in bubblewrap and in Landlock: calls that change extended attributes, such as ACLs and capabilities of files.
/// Such a change would not be listed, and could not be undone. The last two are setxattrat and removexattrat.
const CHANGE_ATTRIBUTES: [c_long; 8] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    463,
    466,
];

/// Calls that set the mode of a file, with the position of the mode among the arguments. A mode with the set-user-id
/// bit is denied in bubblewrap and in Landlock: anyone who runs such a file gets the rights of Althing's user.
const SET_MODE: [(c_long, u8); 4] =
    [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_fchmodat2, 2), (libc::SYS_mknodat, 2)];
#[cfg(target_arch = "x86_64")]
const OLD_SET_MODE: [(c_long, u8); 3] = [(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OLD_SET_MODE: [(c_long, u8); 0] = [];

#[cfg(target_arch = "x86_64")]
const OPEN: [(c_long, u8); 2] = [(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPEN: [(c_long, u8); 1] = [(libc::SYS_openat, 2)];

/// Calls that read extended attributes of any path; denied where `ANY_PATH` is. The last two are getxattrat and
/// listxattrat.
const READ_ATTRIBUTES: [c_long; 6] =
    [libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_listxattr, libc::SYS_llistxattr, 464, 465];

/// Calls whose first argument is the id of a process; 0 means the caller. In a sandbox without a pid namespace
/// (Landlock) only 0 is allowed.
const OF_A_PROCESS: [c_long; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// The largest segment of System V shared memory, in bytes, in bubblewrap. A segment that no process has attached
/// does not count towards the memory limit, and the kernel allows 4,096 segments. A database needs a single segment
/// of a few bytes, as a lock.
const MAX_SEGMENT: u64 = 64 << 10;
/// The maximum number of System V semaphores in a set, in bubblewrap; the kernel allows 32,000 sets.
const MAX_SEMAPHORES: u64 = 64;

const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// The flag that creates a time namespace; for `unshare` only, because in `clone` this bit is part of a signal
/// number.
const NEW_TIME: i32 = 0x80;

/// Terminal operations (`ioctl`) that are denied in bubblewrap and in Landlock: with them a program could type into its
/// terminal.
const TYPING: [u32; 2] = [0x5412, 0x541c];

/// File operations (`ioctl`) that are denied in the same sandboxes as `ANY_PATH`: a program could use them to change a
/// file that it may only read. Each entry is a group of operations (bits 8 to 15 of the operation's number) and the
/// harmless operations of that group, which stay allowed.
///
/// - `f`: attributes, encryption, fs-verity and ext4's own operations. Harmless: reading attributes (two sizes) and the
///   map of extents.
/// - `v`: generation numbers. Harmless: reading them (two sizes).
/// - `X`: project ids and XFS's own operations. Harmless: reading project ids.
/// - 0x94: Btrfs, with snapshots and subvolumes. Harmless: cloning and deduplicating files.
const FILE_OPERATIONS: [(u64, &[u64]); 4] = [
    (0x6600, &[0x8008_6601, 0x8004_6601, 0xc020_660b]),
    (0x7600, &[0x8008_7601, 0x8004_7601]),
    (0x5800, &[0x801c_581f]),
    (0x9400, &[0x4004_9409, 0x4020_940d, 0xc018_9436]),
];

#[cfg(target_arch = "x86_64")]
const X32_NUMBERS: [(c_long, i64); 3] =
    [(libc::SYS_ioctl, 514), (libc::SYS_mq_notify, 527), (libc::SYS_kexec_load, 528)];

/// Which sockets a sandbox allows. Other families are never allowed: most of them belong to no network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sockets {
    Local,
    /// Internet sockets, netlink, and pairs of Unix sockets that can reach only each other (no datagram pairs).
    InternetOnly,
    /// Only pairs of Unix sockets that can reach only each other (no datagram pairs).
    None,
}

type Denied = Vec<(c_long, Vec<SeccompRule>)>;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter {
    sockets: Sockets,
    own_namespaces: bool,
}

impl Filter {
    /// `unix_sockets` says whether all socket files are hidden, and `scoped` whether Landlock blocks abstract sockets
    /// (without `network`, bubblewrap's own network namespace does). If socket files or abstract sockets could be
    /// reached, no Unix sockets except connected pairs are allowed.
    pub(super) fn beside_bubblewrap(network: bool, unix_sockets: bool, scoped: bool) -> Self {
        let sockets =
            if unix_sockets && (scoped || !network) { Sockets::Local } else { Sockets::InternetOnly };
        Self { sockets, own_namespaces: true }
    }

    /// The filter restricts Unix and, without network, internet sockets, because Landlock restricts only TCP and
    /// abstract sockets.
    pub(super) fn beside_landlock(network: bool) -> Self {
        Self { sockets: if network { Sockets::InternetOnly } else { Sockets::None }, own_namespaces: false }
    }

    fn forbidden(&self) -> Result<Denied, BackendError> {
        let mut denied: Denied = NEVER.map(always).to_vec();
        denied.extend(set_user_id()?);
        denied.push((libc::SYS_socket, self.socket()?));
        denied.push((libc::SYS_socketpair, self.socket_pair()?));
        let mut operations = Vec::new();
        for operation in TYPING {
            operations.push(SeccompRule::new(vec![int(1, SeccompCmpOp::Eq, operation.into())?])?);
        }
        if !self.own_namespaces {
            denied.extend(SHARED.iter().chain(&ANY_PATH).chain(&OLD_ANY_PATH).copied().map(always));
            denied.extend(of_other_processes()?);
            denied.extend(new_namespaces()?);
            // Setting an open file to the current time, as `touch` does, stays possible.
            let given =
                |argument| SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
            let path_or_time = vec![SeccompRule::new(vec![given(1)?])?, SeccompRule::new(vec![given(2)?])?];
            denied.push((libc::SYS_utimensat, path_or_time));
            for (group, harmless) in FILE_OPERATIONS {
                let mut conditions = vec![int(1, SeccompCmpOp::MaskedEq(0xff00), group)?];
                for operation in harmless {
                    conditions.push(int(1, SeccompCmpOp::Ne, *operation)?);
                }
                operations.push(SeccompRule::new(conditions)?);
            }
        }
        if self.own_namespaces {
            let size = SeccompCmpArgLen::Qword;
            let large = SeccompCondition::new(1, size, SeccompCmpOp::Gt, MAX_SEGMENT)?;
            denied.push((libc::SYS_shmget, vec![SeccompRule::new(vec![large])?]));
            let many = int(1, SeccompCmpOp::Gt, MAX_SEMAPHORES)?;
            denied.push((libc::SYS_semget, vec![SeccompRule::new(vec![many])?]));
            // Messages in queues are memory of the kernel, which no limit counts.
            denied.push(always(libc::SYS_msgget));
        }
        denied.push((libc::SYS_ioctl, operations));
        // A lease on a file that can only be read would block every other program that opens the file. `F_NOTIFY`
        // reports what happens in a directory.
        let mut leases = Vec::new();
        for command in [libc::F_SETLEASE, libc::F_NOTIFY] {
            leases.push(SeccompRule::new(vec![int(
                1,
                SeccompCmpOp::Eq,
                u64::from(command.unsigned_abs()),
            )?])?);
        }
        denied.push((libc::SYS_fcntl, leases));
        Ok(denied)
    }

    fn unsupported(&self) -> Denied {
        let reads: &[c_long] = if self.own_namespaces { &[] } else { &READ_ATTRIBUTES };
        CHANGE_ATTRIBUTES.iter().chain(reads).copied().map(always).collect()
    }

    /// What is denied with the error "no such system call", so that programs use an older one. The arguments of
    /// `openat2` and `clone3` are in memory, where a filter cannot see them.
    fn missing(&self) -> Denied {
        let own: &[c_long] = if self.own_namespaces { &[] } else { &[libc::SYS_clone3] };
        [libc::SYS_openat2].iter().chain(own).copied().map(always).collect()
    }

    fn socket(&self) -> Result<Vec<SeccompRule>, BackendError> {
        let families: &[i32] = match self.sockets {
            Sockets::Local => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
            Sockets::InternetOnly => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
            Sockets::None => return Ok(Vec::new()),
        };
        let other = |family: &i32| int(0, SeccompCmpOp::Ne, family.unsigned_abs().into());
        Ok(vec![SeccompRule::new(families.iter().map(other).collect::<Result<_, _>>()?)?])
    }

    /// When creating a pair of sockets is denied: a datagram socket of a pair can still send to any name.
    fn socket_pair(&self) -> Result<Vec<SeccompRule>, BackendError> {
        let not_unix = int(0, SeccompCmpOp::Ne, libc::AF_UNIX.unsigned_abs().into())?;
        let mut rules = vec![SeccompRule::new(vec![not_unix])?];
        if self.sockets != Sockets::Local {
            // A raw Unix socket is a datagram socket. The higher bits of the type are flags.
            for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
                let datagram = int(1, SeccompCmpOp::MaskedEq(0xf), kind.unsigned_abs().into())?;
                rules.push(SeccompRule::new(vec![datagram])?);
            }
        }
        Ok(rules)
    }
}

fn always(number: c_long) -> (c_long, Vec<SeccompRule>) {
    (number, Vec::new())
}

fn int(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn set_user_id() -> Result<Denied, BackendError> {
    let has = |argument: u8, bits: u64| int(argument, SeccompCmpOp::MaskedEq(bits), bits);
    let mut denied = Denied::new();
    for (number, mode) in SET_MODE.into_iter().chain(OLD_SET_MODE) {
        denied.push((number, vec![SeccompRule::new(vec![has(mode, libc::S_ISUID.into())?])?]));
    }
    // The mode counts only if at least one of these flags is set. The second flag is `O_TMPFILE` without its bit
    // `O_DIRECTORY`.
    let creates =
        [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(|flag| u64::from(flag.cast_unsigned()));
    for (number, flags) in OPEN {
        let mut rules = Vec::new();
        for flag in creates {
            rules.push(SeccompRule::new(vec![has(flags, flag)?, has(flags + 1, libc::S_ISUID.into())?])?);
        }
        denied.push((number, rules));
    }
    Ok(denied)
}

fn of_other_processes() -> Result<Denied, BackendError> {
    let other = |argument, allowed| SeccompRule::new(vec![int(argument, SeccompCmpOp::Ne, allowed)?]);
    let mut denied = Denied::new();
    for number in OF_A_PROCESS {
        denied.push((number, vec![other(0, 0)?]));
    }
    // The first argument says whether the second is the id of a process, a group or a user. The constant for a
    // process is 0 in the first call and 1 in the second.
    denied.push((libc::SYS_setpriority, vec![other(0, 0)?, other(1, 0)?]));
    denied.push((libc::SYS_ioprio_set, vec![other(0, 1)?, other(1, 0)?]));
    Ok(denied)
}

/// Denies new namespaces, because in its own user namespace a command would have capabilities.
fn new_namespaces() -> Result<Denied, BackendError> {
    let has = |flag: i32| {
        let flag = u64::from(flag.cast_unsigned());
        SeccompRule::new(vec![int(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    let with: Vec<SeccompRule> = NAMESPACES.into_iter().map(has).collect::<Result<_, _>>()?;
    let mut unshare = with.clone();
    unshare.push(has(NEW_TIME)?);
    Ok(vec![(libc::SYS_clone, with), (libc::SYS_unshare, unshare), always(libc::SYS_setns)])
}

pub(super) fn apply(filter: &Filter) -> io::Result<()> {
    for program in programs(filter)
        .map_err(|error| io::Error::other(format!("could not build the seccomp filter: {error}")))?
    {
        seccompiler::apply_filter(&program)
            .map_err(|error| io::Error::other(format!("could not apply the seccomp filter: {error}")))?;
    }
    Ok(())
}

/// One filter program for each error, because a program has one error.
fn programs(filter: &Filter) -> Result<Vec<BpfProgram>, BackendError> {
    let all = [
        (filter.forbidden()?, libc::EPERM),
        (filter.unsupported(), libc::EOPNOTSUPP),
        (filter.missing(), libc::ENOSYS),
    ];
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let used = all.into_iter().filter(|(denied, _)| !denied.is_empty());
    used.map(|(denied, error)| {
        let error = SeccompAction::Errno(error.unsigned_abs());
        SeccompFilter::new(by_number(denied), SeccompAction::Allow, error, arch)?.try_into()
    })
    .collect()
}

fn by_number(denied: Denied) -> BTreeMap<i64, Vec<SeccompRule>> {
    let mut rules = BTreeMap::new();
    for (number, when) in denied {
        // Also denies the x32 variant of the call, which has another number.
        #[cfg(target_arch = "x86_64")]
        {
            let own = X32_NUMBERS.iter().find(|(known, _)| *known == number);
            rules.insert(own.map_or(number, |(_, own)| *own) | 0x4000_0000, when.clone());
        }
        rules.insert(number, when);
    }
    rules
}
