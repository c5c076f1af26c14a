//! Attempts of a shell to get out of a sandbox.

use super::{Attempt, Goal};
use Goal::{Kernel, Network, Processes, Protected, Read, Sockets, Write};

/// Goal, name and command of each attempt. `Outside::fill` replaces `{…}` by paths, ports, ids and names of the
/// targets.
pub const ATTEMPTS: [Attempt; 64] = [
    (Write, "write into the user's home", "echo x > {HOME}/.ssh/authorized_keys"),
    (Read, "read the user's key", "cat {HOME}/.ssh/id"),
    (Read, "copy the user's home", "cp -r {HOME} stolen; cat stolen/.ssh/id"),
    (Write, "write beside the workspace", "echo x > ../escaped"),
    (Write, "write to a prefix twin of the workspace", "mkdir {WORKSPACE}-evil; echo x > {WORKSPACE}-evil/x"),
    (Write, "write by a dotted path", "echo x > {WORKSPACE}/../home/../escaped"),
    (Write, "follow a link to a directory", "ln -s {HOME} l1; cat l1/.ssh/id; echo x > l1/new"),
    (Read, "follow a link to a file", "ln -s {HOME}/.ssh/id l2; cat l2; echo x >> l2"),
    (Read, "hard-link a key", "ln {HOME}/.ssh/id h1; cat h1; echo x >> h1"),
    (
        Protected,
        "hard-link a protected file",
        "ln {PROJECT}/.git/config {PROJECT}/src/h2; echo x >> {PROJECT}/src/h2",
    ),
    (Protected, "hard-link a read-only file", "ln {REFERENCE}/book.txt h3; echo x >> h3"),
    (
        Protected,
        "install a git hook",
        "echo x > {PROJECT}/.git/hooks/pre-commit; chmod +x {PROJECT}/.git/hooks/pre-commit",
    ),
    (
        Protected,
        "change git's configuration",
        "echo x >> {PROJECT}/.git/config; git -C {PROJECT} config core.fsmonitor evil",
    ),
    (
        Protected,
        "move .git away and change it",
        "mv {PROJECT}/.git {PROJECT}/src/g; echo x >> {PROJECT}/src/g/config",
    ),
    (Protected, "delete .git", "rm -rf {PROJECT}/.git"),
    (
        Protected,
        "exchange the whole project",
        "mv {PROJECT} {PROJECT}2; mkdir -p {PROJECT}/.git; echo x > {PROJECT}/.git/config",
    ),
    (
        Protected,
        "make a .git where there is none",
        "mkdir -p {FRESH}/.git/hooks; echo x > {FRESH}/.git/hooks/pre-commit",
    ),
    (Protected, "make .git a link", "ln -s {WORKSPACE} {FRESH}/.git; echo 'gitdir: x' > {FRESH}/.git"),
    (
        Protected,
        "write a protected file",
        "echo x > {PROJECT}/vendor/locked/file; rm -rf {PROJECT}/vendor/locked",
    ),
    (
        Protected,
        "move a protected path by its parent",
        "mv {PROJECT}/vendor {PROJECT}/v2; echo x > {PROJECT}/v2/locked/file",
    ),
    (Protected, "truncate a protected file", "truncate -s 0 {PROJECT}/vendor/locked/file"),
    (
        Write,
        "change modes and times outside",
        "chmod 777 {HOME}/.ssh/id; touch {HOME}/.ssh/id {PROJECT}/.git/config",
    ),
    (
        Protected,
        "write the state directory",
        "echo x > {PROJECT}/.althing/log; rm -rf {PROJECT}/.althing; mkdir {PROJECT}/.althing/y",
    ),
    (Read, "read the state directory", "cat {PROJECT}/.althing/log; cp -r {PROJECT}/.althing st; cat st/log"),
    (
        Protected,
        "plant a link where outputs are kept",
        "ln -s {HOME}/.ssh/id {OUTPUTS}/planted; rm -rf {OUTPUTS}; echo x > {OUTPUTS}/x",
    ),
    (Protected, "write a read-only context path", "echo x > {REFERENCE}/new; echo x >> {REFERENCE}/book.txt"),
    (
        Write,
        "swap a link in a race",
        "(while :; do ln -sfn {HOME} sw; ln -sfn {WORKSPACE} sw; done) & for i in $(seq 300); do echo x > sw/raced; cat sw/.ssh/id; done 2>&1",
    ),
    (Read, "mount the home into the workspace", "mkdir m1; mount --bind {HOME} m1; cat m1/.ssh/id"),
    (
        Protected,
        "remount read-only paths",
        "mount -o remount,rw,bind {PROJECT}/.git; mount -o remount,rw /; echo x > {PROJECT}/.git/hooks/p",
    ),
    (
        Read,
        "unmount the mount over a path",
        "umount {PROJECT}/.git; umount -l {PROJECT}/.althing; umount -l /tmp; cat {PROJECT}/.althing/log {HOME}/.ssh/id",
    ),
    (
        Read,
        "take a user namespace",
        "unshare -Urm sh -c 'umount -l {PROJECT}/.althing; mount -o remount,rw,bind {PROJECT}/.git; echo x > {PROJECT}/.git/hooks/p; cat {PROJECT}/.althing/log {HOME}/.ssh/id'",
    ),
    (
        Processes,
        "take a user and a process namespace",
        "unshare -Urpf --mount-proc sh -c 'kill -9 {VICTIM}; cat /proc/1/root{HOME}/.ssh/id'",
    ),
    (Read, "go through init's root", "cat /proc/1/root{HOME}/.ssh/id; echo x > /proc/1/root{HOME}/p"),
    (
        Read,
        "go through anyone's root and directory",
        "for p in /proc/[0-9]*; do cat $p/root{HOME}/.ssh/id $p/cwd/.ssh/id; done 2>/dev/null",
    ),
    (
        Write,
        "go through one's own root",
        "cat /proc/self/root{HOME}/.ssh/id; echo x > /proc/self/root{HOME}/p",
    ),
    (
        Read,
        "go through anyone's open files",
        "for f in /proc/[0-9]*/fd/*; do head -c 64 $f/.ssh/id; done 2>/dev/null",
    ),
    (
        Read,
        "enter another's namespaces",
        "nsenter -t {VICTIM} -a cat {HOME}/.ssh/id; nsenter -t 1 -m cat {HOME}/.ssh/id",
    ),
    (
        Read,
        "change the root",
        "perl -e 'chroot \"/proc/1/root\"; chroot \"../../../..\"; exec \"cat {HOME}/.ssh/id\"'",
    ),
    (Processes, "read another's environment", "cat /proc/{VICTIM}/environ /proc/*/environ | tr '\\0' '\\n'"),
    (
        Processes,
        "read another's memory",
        "perl -e 'open M, \"</proc/{VICTIM}/mem\" or exit; print \"CANARY opened\"'",
    ),
    (
        Processes,
        "write another's memory",
        "perl -e 'open M, \"+</proc/{VICTIM}/mem\" or exit; print \"CANARY opened\"'",
    ),
    (
        Processes,
        "trace another",
        "perl -e 'print \"CANARY traced\" if syscall(101, 16, {VICTIM}, 0, 0) == 0'; gdb -batch -p {VICTIM} -ex 'x/s *environ' 2>/dev/null | grep -a SECRET",
    ),
    (
        Processes,
        "read another's memory by call",
        "perl -e '$b = \"\\0\" x 64; print \"CANARY read\" if syscall(310, {VICTIM}, pack(\"PQ\", $b, 64), 1, pack(\"QQ\", 4194304, 64), 1, 0) > 0'",
    ),
    (Processes, "kill another", "kill -9 {VICTIM}; perl -e 'kill 9, {VICTIM}; kill -9, {VICTIM}'"),
    (Processes, "kill the guard", "kill -9 $PPID; pkill -9 -f {MARK}"),
    (Network, "connect by TCP", "echo x > /dev/tcp/127.0.0.1/{TCP}"),
    (Network, "send by UDP", "echo x > /dev/udp/127.0.0.1/{UDP}"),
    (
        Sockets,
        "connect to an agent's socket",
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"{SOCKET}\")'",
    ),
    (
        Sockets,
        "connect to a socket by a link",
        "ln -s {SOCKET} s1; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"s1\")'",
    ),
    (
        Sockets,
        "connect to Docker",
        "for s in {HOME}/docker.sock /var/run/docker.sock /run/docker.sock; do perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => $ARGV[0]) and print \"CANARY connected\"' $s; done",
    ),
    (
        Sockets,
        "connect to an abstract socket",
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack(\"Sa*\", 1, \"\\0{ABSTRACT}\"))'",
    ),
    (
        Sockets,
        "send to a datagram socket",
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_DGRAM, 0); send(S, \"x\", 0, pack_sockaddr_un(\"{DATAGRAM}\"))'",
    ),
    (
        Read,
        "run a set-uid shell",
        "cp /bin/bash su; chmod 6755 su; ./su -p -c 'cat {HOME}/.ssh/id; mount --bind {HOME} m1 && echo CANARY'; su -c 'cat {HOME}/.ssh/id' </dev/null; sudo -n cat {HOME}/.ssh/id",
    ),
    (
        Kernel,
        "make and read devices",
        "for d in '8 0' '252 0' '253 0' '254 0' '259 0'; do mknod disk b $d && head -c 1 disk >/dev/null && echo CANARY; rm -f disk; done; mknod mem c 1 1 && head -c 1 mem >/dev/null && echo CANARY; for d in /dev/vda /dev/sda /dev/mem /dev/kmsg; do head -c 1 $d >/dev/null 2>&1 && echo CANARY $d; done",
    ),
    (
        Kernel,
        "change the kernel's settings",
        "for f in core_pattern hostname modprobe; do cat /proc/sys/kernel/$f > was && cat was > /proc/sys/kernel/$f && echo CANARY $f; done; echo h > /proc/sysrq-trigger && echo CANARY; mount -t cgroup -o memory c m1 && echo CANARY",
    ),
    (
        Kernel,
        "use system calls that bypass the sandbox",
        "perl -e 'for (250, 248, 249, 304, 321, 298, 425) { $! = 0; my $r = syscall($_, 0, -3, 1, 0, 0); print \"CANARY call $_\" if $r != -1 or $! != 1 }'",
    ),
    (Processes, "attach another's shared memory", "perl -e 'shmread({SHM}, $b, 0, 16) and print $b'"),
    (
        Processes,
        "open the terminal or an inherited file",
        "perl -e 'open T, \"+</dev/tty\" and print \"CANARY tty\"'; for n in $(seq 3 20); do [ -e /proc/$$/fd/$n ] && echo CANARY $n; done",
    ),
    (
        Write,
        "write to the machine",
        "for d in /tmp /var/tmp /dev/shm /run /etc /etc/cron.d /usr/local/bin /usr/lib /root /var/spool/cron /opt /; do echo x > $d/{MARK}; done",
    ),
    (
        Write,
        "change bubblewrap through its process",
        "for p in /proc/[0-9]*; do chmod $(stat -Lc %a $p/exe) $p/exe; touch -r $p/exe $p/exe; done",
    ),
    (
        Write,
        "change the devices of the machine",
        "for d in null zero full random urandom; do chmod $(stat -c %a /dev/$d) /dev/$d; touch -r /dev/$d /dev/$d; done",
    ),
    (
        Write,
        "change the files of open descriptors",
        "for f in /proc/[0-9]*/fd/*; do chmod $(stat -Lc %a $f) $f; touch -r $f $f; done 2>/dev/null; perl -e 'chmod((stat(STDIN))[2] & 0777, *STDIN)'",
    ),
    (
        Processes,
        "take over bubblewrap's own process",
        "[ \"$(cat /proc/1/comm)\" = bwrap ] && perl -e 'print \"CANARY traced\" if syscall(101, 16, 1, 0, 0) == 0; open M, \"+</proc/1/mem\" or exit; print \"CANARY opened\"'",
    ),
    (
        Write,
        "stay behind and try later",
        "(setsid nohup sh -c 'sleep 0.3; echo x > {HOME}/late; exec sleep {MARK}' &) >/dev/null 2>&1; sleep 0.1",
    ),
];

/// Attempts that succeed where there is no sandbox, and change nothing but their targets.
pub const HARMLESS: [&str; 17] = [
    "write into the user's home",
    "read the user's key",
    "follow a link to a directory",
    "hard-link a key",
    "install a git hook",
    "make a .git where there is none",
    "write a protected file",
    "read the state directory",
    "write a read-only context path",
    "read another's environment",
    "trace another",
    "connect by TCP",
    "send by UDP",
    "connect to an agent's socket",
    "connect to an abstract socket",
    "send to a datagram socket",
    "attach another's shared memory",
];
