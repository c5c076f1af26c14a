//! Files of the machine that a command in bubblewrap can name although they are in none of its mounts, and bubblewrap's
//! own process, which runs beside the command as the same user. The tests of files compare the ctime outside
//! of the sandbox, which every change of mode or times updates, even a change to the same value.

use super::support::{HELPER, is_excluded};
use super::system_calls::{Setting, users};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Sets mode and times of whatever it can reach through devices, descriptors and other processes to what they are.
const CHANGE_OWN_FILES: &str = r#"
import os
def names(directory):
    try:
        return [os.path.join(directory, name) for name in os.listdir(directory)]
    except OSError:
        return []
paths = names("/dev")
for process in filter(lambda path: os.path.basename(path).isdigit() or path.endswith("self"), names("/proc")):
    paths += [os.path.join(process, name) for name in ["exe", "root", "cwd", "ns/net", "ns/time", "ns/user"]]
    paths += names(process + "/fd") + names(process + "/map_files") + names(process + "/root/dev")
for number in range(64):
    try:
        found = os.fstat(number)
        os.fchmod(number, found.st_mode & 0o777)
        os.utime(number, ns=(found.st_atime_ns, found.st_mtime_ns))
    except OSError:
        pass
for path in paths:
    for change in ["mode", "times", "open"]:
        try:
            found = os.stat(path)
            if change == "mode":
                os.chmod(path, found.st_mode & 0o777)
            elif change == "times":
                os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
            else:
                file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                os.fchmod(file, found.st_mode & 0o777)
                os.close(file)
        except OSError:
            pass
print("tried", len(paths))
"#;

const INIT: &str = r#"
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
ATTACH, DETACH, SEIZE = 16, 17, 0x4206
for name, request in [("seize", SEIZE), ("attach", ATTACH)]:
    if libc.ptrace(request, 1, None, None) == 0:
        print("SUCCEEDED", name)
        os.waitpid(1, 0x40000000) if request == ATTACH else None
        libc.ptrace(DETACH, 1, None, None)
for name in ["exe", "root", "cwd", "fd/0"]:
    try:
        os.readlink("/proc/1/" + name)
        print("SUCCEEDED link", name)
    except OSError:
        pass
for name, mode in [("mem", "rb"), ("mem", "r+b"), ("environ", "rb"), ("exe", "rb")]:
    try:
        open("/proc/1/" + name, mode).read(1)
        print("SUCCEEDED open", name, mode)
    except OSError as error:
        if error.errno == 5:
            print("SUCCEEDED open", name, mode)
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
if libc.ptrace(ATTACH, child, None, None) == 0:
    os.waitpid(child, 0x40000000)
    print("traces its child")
os.kill(child, signal.SIGKILL)
print("tried")
"#;

/// The mode and the ctime of files of the machine. Every change of mode or times changes the ctime.
fn own_files() -> BTreeMap<PathBuf, (u32, i64, i64)> {
    let devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
    let paths = ["/usr/bin/bwrap", HELPER].into_iter().chain(devices).map(PathBuf::from);
    paths
        .filter_map(|path| {
            let found = path.metadata().ok()?;
            Some((path, (found.mode(), found.ctime(), found.ctime_nsec())))
        })
        .collect()
}

fn with_script(user: Option<u32>, script: &str) -> Setting {
    let setting = Setting::new(user);
    std::fs::write(setting.data().join("workspace/script.py"), script).unwrap();
    setting
}

#[test]
fn no_command_changes_bubblewrap_or_a_device_of_the_machine() {
    for user in users() {
        for kind in ["bubblewrap", "bubblewrap+network", "landlock"] {
            if is_excluded(kind.trim_end_matches("+network")) {
                continue;
            }
            let before = own_files();
            let output = with_script(user, CHANGE_OWN_FILES)
                .run(kind, "python3 script.py; echo x > /dev/null && echo written");
            assert!(output.contains("tried") && output.contains("written"), "{kind}, {user:?}: {output}");
            assert_eq!(own_files(), before, "{kind}, {user:?}");
        }
    }
}

/// In a container, root often has no right to mount.
#[test]
fn no_command_of_root_without_the_right_to_mount_changes_bubblewrap_or_a_device() {
    if is_excluded("bubblewrap") || !rustix::process::getuid().is_root() {
        return;
    }
    let setting = with_script(None, CHANGE_OWN_FILES);
    let before = own_files();
    let mut helper = setting.command(Path::new("/usr/bin/setpriv"));
    helper.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", HELPER, "run", "bubblewrap"]);
    let output = helper.arg(setting.data()).arg("python3 script.py").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("tried"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(own_files(), before);
}

/// Code in this process could survive the end of Althing and of the guard.
#[test]
fn no_command_takes_over_the_first_process_of_bubblewrap() {
    if is_excluded("bubblewrap") || is_excluded("landlock") {
        return;
    }
    for user in users() {
        let output = with_script(user, INIT).run("bubblewrap+network", "python3 script.py");
        assert!(output.contains("traces its child") && output.contains("tried"), "{user:?}: {output}");
        assert!(!output.contains("SUCCEEDED"), "{user:?}: {output}");
    }
}
