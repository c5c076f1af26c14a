//! Programs that wait for a person, and programs that look as if they did. Every script runs with `sh` in an empty
//! directory, which is also its home.

use AskKind::{Password, Question};
use althing_protocol::AskKind;

pub struct Asking {
    pub name: &'static str,
    pub script: &'static str,
    pub text: &'static str,
    pub about: AskKind,
    /// The ids of the first answers that are offered; empty if none are.
    pub options: &'static [&'static str],
}

const fn asks(name: &'static str, script: &'static str, text: &'static str) -> Asking {
    Asking { name, script, text, about: Question, options: &[] }
}

const fn offers(
    name: &'static str,
    script: &'static str,
    text: &'static str,
    options: &'static [&'static str],
) -> Asking {
    Asking { name, script, text, about: Question, options }
}

const fn hides(name: &'static str, script: &'static str, text: &'static str) -> Asking {
    Asking { name, script, text, about: Password, options: &[] }
}

pub const ASKING: &[Asking] = &[
    asks("rm", "touch a; rm -i a", "remove regular empty file 'a'?"),
    asks("cp", "touch a b; cp -i a b", "overwrite 'b'?"),
    asks("mv", "touch a b; mv -i a b", "overwrite 'b'?"),
    asks("tar", "touch a; tar -cwf t.tar a", "add"),
    asks("find", r"touch a; find . -name a -ok rm {} \;", "< rm ... ./a > ?"),
    asks("xargs", "echo one > list; xargs -p -a list echo", "echo one"),
    offers(
        "mkfs.ext4",
        "truncate -s 4M img; mkfs.ext4 -q img; mkfs.ext4 img",
        "Proceed anyway? (y,N)",
        &["no", "yes"],
    ),
    offers(
        "unzip",
        "echo hi > a; zip -q a.zip a; unzip a.zip",
        "replace a?",
        &["no", "yes", "all", "none", "rename"],
    ),
    hides("zip", "echo hi > a; zip -e a.zip a", "Enter password:"),
    asks("ssh-keygen", "ssh-keygen -t ed25519", "Enter file in which to save the key"),
    hides("ssh-keygen -f", "ssh-keygen -t ed25519 -f key", "Enter passphrase"),
    hides(
        "ssh-keygen -y",
        "ssh-keygen -q -t ed25519 -N secret -f key; ssh-keygen -y -f key",
        "Enter passphrase",
    ),
    asks(
        "openssl req",
        "openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out csr",
        "Country Name",
    ),
    hides("openssl passwd", "openssl passwd -6", "Password:"),
    hides("curl", "curl -u me http://127.0.0.1:9/", "Enter host password for user 'me':"),
    hides("wget", "wget --ask-password --user me http://127.0.0.1:9/", "Password for user"),
    hides("psql", "psql -W -h 127.0.0.1 -U me", "Password:"),
    asks("gpg", "mkdir -m 700 g; gpg --homedir g --full-generate-key", "Your selection?"),
    offers(
        "git add -p",
        "git init -q .; echo 1 > a; git add a; git -c user.name=a -c user.email=a@b commit -qm a; echo 2 >> a; git add -p",
        "(1/1) Stage this hunk [y,n,q,a,d,e,",
        &["no", "yes", "q", "a", "d", "e"],
    ),
    offers(
        "git clean -i",
        "git init -q .; touch a; git clean -i",
        "What now>",
        &["5", "1", "2", "3", "4", "6"],
    ),
    asks("npm", "mkdir p; cd p; npm init", "package name: (p)"),
    asks("whiptail", "whiptail --yesno 'Shall we go on?' 8 40", "Shall we go on?"),
    asks("python3", "python3 -c 'input(\"Name: \")'", "Name:"),
    hides("python3 getpass", "python3 -c 'import getpass; getpass.getpass()'", "Password:"),
    asks("python3 readline", "python3 -c 'import readline; input(\"Your city: \")'", "Your city:"),
    asks(
        "node",
        "node -e 'require(\"readline\").createInterface(process.stdin, process.stdout).question(\"What is it? \", () => {})'",
        "What is it?",
    ),
    asks("perl", "perl -e '$| = 1; print \"Directory [/tmp]: \"; <STDIN>'", "Directory [/tmp]:"),
    asks("busybox", "touch a; busybox rm -i a", "remove 'a'?"),
    offers(
        "bash select",
        "bash -c 'select fruit in apple pear \"two plums\"; do break; done'",
        "#?",
        &["1", "2", "3"],
    ),
    asks("bash read", "bash -c 'read -p \"Host name: \" host'", "Host name:"),
    asks("bash read -e", "bash -c 'read -e -p \"Directory: \" dir'", "Directory:"),
    hides("bash read -s", "bash -c 'read -s -p \"Token: \" token'", "Token:"),
    asks(
        "any key",
        "bash -c 'read -n 1 -s -p \"Press any key to continue...\"'",
        "Press any key to continue...",
    ),
    offers("one key", "bash -c 'read -n 1 -p \"Overwrite? [y/N] \"'", "Overwrite? [y/N]", &["no", "yes"]),
    asks("dash", "printf 'Continue with these settings? '; read answer", "Continue with these settings?"),
    asks("a line above", "echo 'What is your name?'; read name", "What is your name?"),
    asks(
        "terraform",
        r#"printf 'Do you want to perform these actions?\n  Only "yes" will be accepted to approve.\n\n  Enter a value: '; read value"#,
        "Enter a value:",
    ),
    offers(
        "a numbered list",
        r"printf 'Install to:\n  1) /usr/local\n  2) my home\n  3) Cancel\n\nChoice [1-3]: '; read n",
        "Choice [1-3]:",
        &["3", "1", "2"],
    ),
    asks(
        "a list with arrows",
        r#"node -e '
            process.stdin.setRawMode(true); process.stdin.resume();
            process.stdout.write("\x1b[?25l? Which template? (use the arrow keys)\n\u276f vanilla\n  react\n  vue\n")'"#,
        "Which template?",
    ),
    asks(
        "a prompt in an event loop",
        r#"python3 -c '
import asyncio, sys, tty
async def main():
    loop = asyncio.get_running_loop()
    loop.add_reader(0, lambda: None)
    tty.setcbreak(0)
    sys.stdout.write("Deploy to production? "); sys.stdout.flush()
    await asyncio.Event().wait()
asyncio.run(main())'"#,
        "Deploy to production?",
    ),
    asks(
        "a program below another",
        "python3 -c 'import subprocess; subprocess.run([\"sh\", \"-c\", \"printf Realm:; read r\"])'",
        "Realm:",
    ),
    asks(
        "a thread",
        "python3 -c 'import threading; t = threading.Thread(target=input, args=(\"Key id: \",)); t.start(); t.join()'",
        "Key id:",
    ),
    asks("after a flood", "seq 1 20000; printf 'Go on? '; read x", "Go on?"),
];

pub struct Calm {
    pub name: &'static str,
    pub script: &'static str,
    pub shows: &'static str,
}

const fn calm(name: &'static str, script: &'static str, shows: &'static str) -> Calm {
    Calm { name, script, shows }
}

/// A Python program that has turned off line mode and echo.
macro_rules! raw {
    ($body:literal) => {
        concat!(
            "python3 -c '\nimport sys, tty, select, time\ndef out(text):\n    sys.stdout.write(text); sys.stdout.flush()\n",
            "def key(seconds=None):\n    return select.select([0], [], [], seconds)[0]\ntty.setraw(0)\n",
            $body,
            "'"
        )
    };
}

macro_rules! stalled {
    ($option:literal) => {
        concat!(
            "python3 -c '\nimport socket, subprocess, time\nserver = socket.create_server((\"127.0.0.1\", 0))\n",
            "url = \"http://127.0.0.1:%d/\" % server.getsockname()[1]\n",
            "subprocess.Popen([\"curl\", ",
            $option,
            " \"-o\", \"file\", url])\nclient, _ = server.accept()\nclient.recv(9999)\n",
            "client.sendall(b\"HTTP/1.1 200 OK\\r\\nContent-Length: 9000000\\r\\n\\r\\n\" + b\"x\" * 900000)\n",
            "time.sleep(100000)'"
        )
    };
}

pub const CALM: &[Calm] = &[
    calm("less", "seq 1 500 > a; less a", "39"),
    calm("less of a pipe", "seq 1 500 | less", "39"),
    calm("less -X", "seq 1 500 > name:; LESS= less -X name:", "39"),
    calm("less at the end", "seq 1 3 > a; less a", "(END)"),
    calm("more", "seq 1 500 > a; more a", "More"),
    calm(
        "man",
        r"printf '.TH LONG 1\n.SH NAME\n' > long.1; seq 1 300 | sed 's/$/\n/' >> long.1; man -P less ./long.1",
        "LONG(1)",
    ),
    calm(
        "git log",
        "git init -q .; for n in $(seq 1 60); do git -c user.name=a -c user.email=a@b commit -q --allow-empty -m c$n; done; git log --oneline",
        "c60",
    ),
    calm("vi", "echo text > a; vi -u NONE a", "text"),
    calm("busybox vi", "echo text > a; busybox vi a", "text"),
    calm("nano", "echo text > a; nano a", "text"),
    calm("ed", "echo text > a; ed a", "5"),
    calm("top", "top", "PID"),
    calm("watch", "watch -n 1 date", "Every 1"),
    calm("tmux", "tmux -S ./socket -f /dev/null new 'sleep 100000'", "[0] 0:"),
    calm("bash", "exec bash --norc -i", "bash-"),
    calm("dash", "exec dash -i", "#"),
    calm("python3", "exec python3 -q", ">>>"),
    calm("node", "exec node", "Welcome to Node"),
    calm("sqlite3", "exec sqlite3", "sqlite>"),
    calm("perl -de1", "exec perl -de1", "DB<1>"),
    calm("bc", "exec bc", "ABSOLUTELY NO WARRANTY"),
    calm("python3 cmd", "python3 -c 'import cmd; cmd.Cmd().cmdloop()'", "(Cmd)"),
    calm("cat", "echo started; exec cat", "started"),
    calm("script", "exec script -q /dev/null -c 'sh -i'", "#"),
    calm("tail", "echo 'Waiting for input: ' > log; exec tail -f log", "Waiting for input:"),
    calm("curl", stalled!(""), "% Total"),
    calm("curl -#", stalled!("\"-#\","), "#"),
    calm(
        "make",
        r#"printf 'all:\n\t@printf "Linking program: "; sleep 100000\n' > Makefile; make"#,
        "Linking program:",
    ),
    calm(
        "npm run",
        r#"printf '{"scripts":{"dev":"echo ready in 300 ms; sleep 100000"}}' > package.json; npm run dev"#,
        "ready in 300 ms",
    ),
    calm("a server", "exec python3 -m http.server -b 127.0.0.1 0", "Serving HTTP"),
    calm(
        "a server with keys",
        r#"node -e '
            require("net").createServer().listen(0, "127.0.0.1");
            require("readline").createInterface({ input: process.stdin }).on("line", () => {});
            console.log("  Local: http://localhost:5173/\n  press h + enter to show help")'"#,
        "press h",
    ),
    calm(
        "a watcher with keys",
        r#"node -e '
            process.stdin.setRawMode(true); process.stdin.resume();
            process.stdout.write("Watch Usage\n \u203a Press a to run all tests.\n \u203a Press q to quit watch mode.\n \u203a Press Enter to trigger a test run.\n")'"#,
        "trigger a test run",
    ),
    calm(
        "a hint at the cursor",
        raw!(r#"out("Listening on http://localhost:3000 (press q to quit)"); key()"#),
        "press q to quit",
    ),
    calm(
        "a server that also reads commands",
        "python3 -c '\nimport sys, threading, time\nthreading.Thread(target=sys.stdin.readline, daemon=True).start()\nprint(\"[12:00:01] Server started on port 25565\")\ntime.sleep(100000)'",
        "Server started",
    ),
    calm(
        "a question answered by a pipe",
        "printf 'Continue? [y/N] '; echo y | { read a; sleep 100000; }",
        "Continue? [y/N]",
    ),
    calm("a question to somebody else", "printf 'Password: '; sleep 100000", "Password:"),
    calm("a silent step", "printf 'Building: '; sleep 100000", "Building:"),
    calm("a stalled bar", raw!(r#"out("\r45% [=========>          ] 3.1MB/s ETA 0:12 "); key()"#), "45%"),
    calm(
        "a spinner",
        raw!(
            "n = 0\nwhile True:\n    out(\"\\r\" + \"|/-\\\\\"[n % 4] + \" Thinking: \"); n += 1; key(0.1)\n"
        ),
        "Thinking",
    ),
    calm(
        "a slow clock",
        raw!("n = 0\nwhile True:\n    out(f\"\\rWorking for {n} s, what next? \"); n += 1; key(1)\n"),
        "Working for",
    ),
    calm(
        "an input box",
        raw!(
            r#"out("\x1b[2J\x1b[Hhello\r\n\u256d\u2500\u2500\u2500\u256e\r\n\u2502 > Try something \u2502\r\n\u2570\u2500\u2500\u2500\u256f\x1b[3;5H"); key()"#
        ),
        "Try something",
    ),
    calm("a chat", raw!(r#"out(">>> Send a message (/? for help)\x1b[5G"); key()"#), "Send a message"),
    calm("another command language", raw!(r#"out("MariaDB [(none)]> "); key()"#), "MariaDB"),
    calm("a full screen", raw!(r#"out("\x1b[?1049h\x1b[2J\x1b[HSearch: "); key()"#), "Search:"),
    calm("an empty wait", "exec sleep 100000", ""),
];

/// Variables that make the programs independent of the settings of the machine and its user.
pub const ENVIRONMENT: [(&str, &str); 4] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("LC_ALL", "C.UTF-8"),
    ("GIT_PAGER", "less"),
    ("npm_config_update_notifier", "false"),
];
