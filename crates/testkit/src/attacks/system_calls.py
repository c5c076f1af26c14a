"""Attacks by system calls, and the targets of these attacks.

`outside DIR` creates the targets as the current user, prints them as one line of JSON, waits for a line on stdin,
and prints as JSON what happened to the targets. `inside TARGETS` tries every attack and prints `CANARY NAME` for
each one whose system call succeeded, and `did not succeed: NAME (error)` for the others.
"""

import array
import ctypes
import errno
import fcntl
import json
import os
import platform
import socket
import struct
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)

# System call numbers of x86-64 and of arm64.
NUMBERS = {
    "shmget": (29, 194), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "ptrace": (101, 117),
    "syslog": (103, 116), "setpriority": (141, 140), "sched_setscheduler": (144, 119),
    "getxattr": (191, 8), "tkill": (200, 130), "sched_setaffinity": (203, 122), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "add_key": (248, 217), "keyctl": (250, 219), "ioprio_set": (251, 30),
    "ioprio_get": (252, 31), "inotify_add_watch": (254, 27), "unshare": (272, 97), "inotify_init1": (294, 26),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "prlimit64": (302, 261),
    "setns": (308, 268), "process_vm_readv": (310, 270), "sched_setattr": (314, 274), "bpf": (321, 280),
    "userfaultfd": (323, 282), "pidfd_send_signal": (424, 424), "io_uring_setup": (425, 425),
    "pidfd_open": (434, 434), "clone3": (435, 435), "pidfd_getfd": (438, 438),
}
ARM = platform.machine() == "aarch64"

GETFLAGS, SETFLAGS = 0x80086601, 0x40086602
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
NODUMP = 0x40
IPC_CREAT, IPC_RMID, IPC_STAT, SETVAL, GETVAL = 0o1000, 0, 2, 16, 12


def call(name, *arguments):
    """The result of a system call; raises OSError."""
    ctypes.set_errno(0)
    given = [ctypes.c_long(part) if isinstance(part, int) else part for part in arguments]
    result = libc.syscall(ctypes.c_long(NUMBERS[name][ARM]), *given)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def buffer(data=b"", size=4096):
    return ctypes.create_string_buffer(data, max(size, len(data)))


def flags_of(path):
    with open(path) as file:
        flags = array.array("l", [0])
        fcntl.ioctl(file, GETFLAGS, flags)
        return flags[0]


def state_of(pid):
    """What the attacks could change about a process."""
    with open(f"/proc/{pid}/limits") as limits, open(f"/proc/{pid}/stat") as status:
        limits, fields = limits.read(), status.read().rsplit(")", 1)[1].split()
    state = {"state": fields[0].replace("R", "S"), "nice": fields[16], "policy": os.sched_getscheduler(pid)}
    state.update({line[:26].strip(): line[26:] for line in limits.splitlines()})
    state.update({"affinity": sorted(os.sched_getaffinity(pid)), "ioprio": call("ioprio_get", 1, pid)})
    return state


def outside(directory):
    hidden, context = os.path.join(directory, "hidden"), os.path.join(directory, "context")
    for path in [hidden, context, os.path.join(context, "deep")]:
        os.makedirs(path, exist_ok=True)
    for path in ["hidden/secret", "context/file"]:
        with open(os.path.join(directory, path), "w") as file:
            file.write("text")
    os.setxattr(os.path.join(hidden, "secret"), "user.note", b"an attribute")
    victim = subprocess.Popen(["sleep", "86399"], stdout=subprocess.DEVNULL, start_new_session=True)
    kinds = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packet": socket.SOCK_SEQPACKET}
    sockets = {}
    for kind, number in kinds.items():
        names = [f"{hidden}/{kind}", f"{context}/deep/{kind}", f"\0althing-{os.getpid()}-{kind}"]
        for name in names:
            bound = sockets[name] = socket.socket(socket.AF_UNIX, number)
            bound.bind(name)
            bound.setblocking(False)
            if kind != "datagram":
                bound.listen()
    pipe = f"{context}/deep/pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    shm, sem, msg = (call(*make) for make in [
        ("shmget", 0, 64, IPC_CREAT | 0o600), ("semget", 0, 1, IPC_CREAT | 0o600), ("msgget", 0, IPC_CREAT | 0o600)])
    call("msgsnd", msg, buffer(struct.pack("l", 1) + b"letter"), 6, 0)
    queue = f"althing-{os.getpid()}"
    os.close(call("mq_open", queue.encode(), os.O_CREAT | os.O_RDWR, 0o600, 0))
    before, flags = state_of(victim.pid), flags_of(f"{context}/file")
    targets = {"victim": victim.pid, "hidden": hidden, "context": context, "shm": shm, "sem": sem, "msg": msg,
               "queue": queue, "sockets": list(sockets)}
    print(json.dumps(targets), flush=True)
    sys.stdin.readline()
    evidence = []
    if victim.poll() is not None:
        evidence.append("the process outside ended")
    else:
        after = state_of(victim.pid)
        evidence += [f"{name} of the process outside: {was} -> {after[name]}"
                     for name, was in before.items() if after[name] != was]
    for name, bound in sockets.items():
        try:
            bound.recv(16) if bound.type == socket.SOCK_DGRAM else bound.accept()
            evidence.append(f"the socket {name!r} was reached")
        except BlockingIOError:
            pass
    if os.read(reader, 16):
        evidence.append("the pipe in a read-only directory was written to")
    status = buffer()
    try:
        call("msgctl", msg, IPC_STAT, status)
        letters = struct.unpack_from("Q", status, 80)[0]
        if letters != 1:
            evidence.append(f"the message queue holds {letters} messages")
        call("msgctl", msg, IPC_RMID, 0)
    except OSError as error:
        evidence.append(f"the message queue: {error}")
    try:
        value = call("semctl", sem, 0, GETVAL, 0)
        if value:
            evidence.append(f"the semaphore is {value}")
        call("semctl", sem, 0, IPC_RMID, 0)
    except OSError as error:
        evidence.append(f"the semaphore: {error}")
    for name, remove in [("the shared memory", ("shmctl", shm, IPC_RMID, 0)),
                         ("the POSIX message queue", ("mq_unlink", queue.encode()))]:
        try:
            call(*remove)
        except OSError as error:
            evidence.append(f"{name}: {error}")
    if flags_of(f"{context}/file") != flags:
        evidence.append("the attributes of a read-only file changed")
    victim.kill()
    victim.wait()
    print(json.dumps(evidence), flush=True)


def in_child(attack):
    """Runs an attack in a child process, because it would change this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        failed = b""
        try:
            attack()
        except OSError as error:
            failed = str(error.errno).encode()
        os.write(writing, failed or b"0")
        os._exit(0)
    os.close(writing)
    code = int(os.read(reading, 16) or b"0")
    os.waitpid(child, 0)
    if code:
        raise OSError(code, os.strerror(code))


def user_namespace_by_clone3():
    arguments = buffer(struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)
    child = call("clone3", arguments, 64)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def user_namespace_by_clone():
    number = 220 if ARM else 56
    ctypes.set_errno(0)
    child = libc.syscall(ctypes.c_long(number), ctypes.c_long(0x10000000 | 17), 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(child, 0)


def connect(kind, name):
    with socket.socket(socket.AF_UNIX, kind) as ours:
        ours.connect(name)
        ours.send(b"x")


def send_from_a_pair(name, by_connecting, kind=socket.SOCK_DGRAM):
    ours, _theirs = socket.socketpair(socket.AF_UNIX, kind)
    if by_connecting:
        ours.connect(name)
        ours.send(b"x")
    else:
        ours.sendto(b"x", name)


def watch_by_inotify(hidden):
    watch = call("inotify_init1", 0)
    call("inotify_add_watch", watch, hidden.encode(), 0xFFF)


def watch_by_fanotify(hidden):
    # FAN_REPORT_FID; FAN_MARK_ADD of FAN_CREATE and FAN_MODIFY for the children.
    watch = call("fanotify_init", 0x200, 0)
    call("fanotify_mark", watch, 1, 0x100 | 0x2 | 0x08000000, -100, hidden.encode())


def watch_by_dnotify(readable):
    # F_NOTIFY with DN_MODIFY and DN_CREATE. The watch ends when the directory is closed, before its signal could end this
    # program.
    directory = os.open(readable, os.O_RDONLY)
    try:
        fcntl.fcntl(directory, 1026, 0x2 | 0x4)
    finally:
        os.close(directory)


def set_flags(path):
    with open(path) as file:
        fcntl.ioctl(file, SETFLAGS, array.array("l", [flags_of(path) | NODUMP]))


def terminal_operation(number):
    # Any descriptor will do: the filter decides before the kernel looks at it.
    try:
        fcntl.ioctl(0, number, b"\0" * 8)
    except OSError as error:
        if error.errno == errno.EPERM:
            raise


def signal_by_pidfd(victim):
    call("pidfd_send_signal", call("pidfd_open", victim, 0), 18, 0, 0)


def steal_a_descriptor(victim):
    call("pidfd_getfd", call("pidfd_open", victim, 0), 0, 0)


def enter_namespace(victim):
    with open(f"/proc/{victim}/ns/uts") as namespace:
        call("setns", namespace.fileno(), 0)


def read_memory(victim):
    part = buffer(size=16)
    ours = struct.pack("QQ", ctypes.addressof(part), 16)
    with open("/proc/self/maps") as maps:
        start = int(maps.readline().split("-")[0], 16)
    try:
        call("process_vm_readv", victim, buffer(ours), 1, buffer(struct.pack("QQ", start, 16)), 1, 0)
    except OSError as error:
        # The address is not one of the other process's, but the access was allowed.
        if error.errno != errno.EFAULT:
            raise


def attacks(targets):
    victim, hidden, context = targets["victim"], targets["hidden"], targets["context"]
    none = buffer(struct.pack("QQ", 0, 0))
    yield "read the limits of a process", lambda: call("prlimit64", victim, 7, 0, none)
    yield "limit the files of a process", lambda: call("prlimit64", victim, 7, buffer(struct.pack("QQ", 3, 3)), 0)
    yield "lower the priority of a process", lambda: call("setpriority", 0, victim, 5)
    yield "lower the priority of a group", lambda: call("setpriority", 1, victim, 6)
    yield "lower the I/O priority of a process", lambda: call("ioprio_set", 1, victim, 3 << 13)
    yield "bind a process to a CPU", lambda: call("sched_setaffinity", victim, 8, buffer(struct.pack("Q", 1)))
    yield "make a process idle", lambda: call("sched_setscheduler", victim, 5, buffer(size=8))
    yield "make a process idle by attributes", lambda: call(
        "sched_setattr", victim, buffer(struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0)), 0)
    yield "send a signal", lambda: os.kill(victim, 0)
    yield "send a signal to a thread", lambda: call("tkill", victim, 18)
    yield "send a signal by descriptor", lambda: signal_by_pidfd(victim)
    yield "take a descriptor of a process", lambda: steal_a_descriptor(victim)
    yield "trace a process", lambda: call("ptrace", 16, victim, 0, 0)
    yield "read the memory of a process", lambda: read_memory(victim)
    yield "enter a namespace of a process", lambda: in_child(lambda: enter_namespace(victim))
    for name in targets["sockets"]:
        where = "an abstract" if name.startswith("\0") else "a hidden" if name.startswith(hidden) else "a context"
        kind = name.rsplit("-" if name.startswith("\0") else "/", 1)[1]
        number = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packet": socket.SOCK_SEQPACKET}[kind]
        yield f"connect to {where} {kind} socket", lambda number=number, name=name: connect(number, name)
        if kind == "datagram":
            yield f"send to {where} socket from a pair", lambda name=name: send_from_a_pair(name, False)
            yield f"connect a pair to {where} socket", lambda name=name: send_from_a_pair(name, True)
            yield f"send to {where} socket from a raw pair", lambda name=name: send_from_a_pair(
                name, False, socket.SOCK_RAW)
    yield "write to a pipe in a read-only directory", lambda: os.write(
        os.open(f"{context}/deep/pipe", os.O_WRONLY | os.O_NONBLOCK), b"x")
    shm, sem, msg, queue = targets["shm"], targets["sem"], targets["msg"], targets["queue"].encode()
    yield "set a semaphore", lambda: call("semctl", sem, 0, SETVAL, 3)
    yield "raise a semaphore", lambda: call("semop", sem, buffer(struct.pack("Hhh", 0, 1, 0)), 1)
    yield "remove a semaphore", lambda: call("semctl", sem, 0, IPC_RMID, 0)
    yield "take a message", lambda: call("msgrcv", msg, buffer(), 64, 0, 0o4000)
    yield "send a message", lambda: call("msgsnd", msg, buffer(struct.pack("l", 1) + b"forged"), 6, 0o4000)
    yield "remove a message queue", lambda: call("msgctl", msg, IPC_RMID, 0)
    yield "remove shared memory", lambda: call("shmctl", shm, IPC_RMID, 0)
    yield "open a POSIX message queue", lambda: call("mq_open", queue, os.O_RDWR, 0, 0)
    yield "remove a POSIX message queue", lambda: call("mq_unlink", queue)
    yield "change the attributes of a read-only file", lambda: set_flags(f"{context}/file")
    # F_SETLEASE
    yield "block a read-only file with a lease", lambda: fcntl.fcntl(
        os.open(f"{context}/file", os.O_RDONLY), 1024, fcntl.F_WRLCK)
    yield "watch a read-only directory by dnotify", lambda: watch_by_dnotify(context)
    yield "read an extended attribute of a hidden file", lambda: os.getxattr(f"{hidden}/secret", "user.note")
    yield "watch a hidden directory by inotify", lambda: watch_by_inotify(hidden)
    yield "watch a hidden directory by fanotify", lambda: watch_by_fanotify(hidden)
    yield "create a user namespace", lambda: in_child(lambda: call("unshare", 0x10000000))
    yield "create a user namespace by clone", user_namespace_by_clone
    yield "create a user namespace by clone3", user_namespace_by_clone3
    yield "type into the terminal", lambda: terminal_operation(TIOCSTI)
    yield "paste into the terminal", lambda: terminal_operation(TIOCLINUX)
    yield "add a key", lambda: call("add_key", b"user", b"althing", b"x", 1, -3)
    yield "read the session keyring", lambda: call("keyctl", 0, -3, 1)
    yield "use io_uring", lambda: call("io_uring_setup", 1, buffer(size=120))
    yield "load a kernel program", lambda: call("bpf", 0, buffer(struct.pack("4I", 2, 4, 4, 1), 72), 72)
    yield "handle page faults", lambda: call("userfaultfd", 1)
    for family, number, kind in [("vsock", 40, 1), ("vsock (datagrams)", 40, 2), ("alg", 38, 5), ("packet", 17, 3),
                                 ("bluetooth", 31, 3), ("tipc", 30, 2), ("can", 29, 3), ("kcm", 41, 5)]:
        yield f"open a socket of the family {family}", lambda number=number, kind=kind: socket.socket(number, kind)


def inside(targets):
    for name, attack in attacks(targets):
        try:
            attack()
            print("CANARY", name)
        except OSError as error:
            print(f"did not succeed: {name} ({error})")
    print("every attack was tried", flush=True)


if sys.argv[1] == "outside":
    outside(sys.argv[2])
else:
    inside(json.loads(sys.argv[2]))
