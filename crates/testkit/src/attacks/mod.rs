//! Attacks that agents of every kind try in every sandbox, judged only by their effects outside. The tests of `runner`
//! try the attempts directly in bubblewrap and Landlock; the tests of `cli` have every kind of agent of the built binary
//! try them in every sandbox.

mod attempts;
mod file_tools;
mod outside;

pub use attempts::{ATTEMPTS, HARMLESS};
pub use file_tools::{ToolAttempt, file_tool_attempts};
pub use outside::{FILES, Outside, Places, processes_with, unique_seconds};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    Write,
    Read,
    /// Change protected paths, repositories, read-only context paths or the state directory.
    Protected,
    Processes,
    /// Reach other programs by TCP or UDP.
    Network,
    /// Reach other programs by unix sockets.
    Sockets,
    /// Use what the kernel should refuse.
    Kernel,
}

pub type Attempt = (Goal, &'static str, &'static str);

/// A Python program with attacks by system calls, and with the targets of these attacks.
pub const SYSTEM_CALLS: &str = include_str!("system_calls.py");

/// An MCP server with one tool, which runs a command and then kills the process group of the command.
pub const SHELL_SERVER: &str = r#"import json, os, signal, subprocess, sys
for line in sys.stdin:
    call = json.loads(line)
    if "id" not in call:
        continue
    method, params = call["method"], call.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "shell", "version": "1"}}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"command": {"type": "string"}}}
        result = {"tools": [{"name": "act", "description": "Acts.", "inputSchema": schema}]}
    elif method == "tools/call":
        command = ["bash", "-c", params["arguments"]["command"]]
        pipe, out = subprocess.PIPE, subprocess.STDOUT
        acting = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=out, start_new_session=True)
        said = acting.communicate()[0].decode(errors="replace")
        try:
            os.killpg(acting.pid, signal.SIGKILL)
        except OSError:
            pass
        result = {"content": [{"type": "text", "text": said}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"#;
