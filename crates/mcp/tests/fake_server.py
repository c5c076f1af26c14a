"""An MCP server that misbehaves on demand, for the tests. Standard library only.

stdio:  fake_server.py [flags]
HTTP:   fake_server.py --http [flags]      prints its port on the first line of stdout
"""
import argparse, json, os, signal, subprocess, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

flags = argparse.ArgumentParser()
flags.add_argument("--http", action="store_true")
flags.add_argument("--protocol", help="answer initialize with this revision instead of the one asked for")
flags.add_argument("--modern-only", action="store_true", help="know server/discover, refuse initialize")
flags.add_argument("--deaf", action="store_true", help="never answer anything")
flags.add_argument("--exit-at-start", type=int)
flags.add_argument("--exit-unless", help="exit at start unless this file is there")
flags.add_argument("--noise-at-start", type=int, default=0, help="kibibytes of noise on stdout")
flags.add_argument("--stderr-lines", type=int, default=0)
flags.add_argument("--many-tools", type=int, default=0)
flags.add_argument("--endless-pages", action="store_true")
flags.add_argument("--bad-tools", action="store_true")
flags.add_argument("--no-tools", action="store_true")
flags.add_argument("--stubborn", action="store_true", help="ignore the end of stdin and SIGTERM")
flags.add_argument("--pid-file")
flags.add_argument("--port", type=int, default=0)
flags.add_argument("--token", help="HTTP: ask for this bearer token")
flags.add_argument("--sse", action="store_true", help="HTTP: answer with event streams")
flags.add_argument("--refuse", type=int, help="HTTP: answer everything with this status")
flags.add_argument("--end-streams", action="store_true", help="HTTP: end each stream at once and ask to be called again at once")
flags.add_argument("--redirect", help="HTTP: redirect everything outside /real/ to here")
args = flags.parse_args()

out_lock = threading.Lock()
cancelled = {}
replies = threading.Semaphore(0)
state = {"extra": False, "stuck": False, "sessions": set(), "next_session": 1, "requests": []}
OBJECT = {"type": "object", "properties": {}}
MODERN = "2026-07-28"


def names():
    return ["echo", "environment", "die", "hang", "progress", "huge_frame", "endless_frame", "big", "noise", "change", "fail",
            "refuse", "append", "grandchild", "picture", "structured", "close_stdout", "batch", "odd_content",
            "expire", "seen", "deny_next", "cwd", "daemon", "pings"]


def tools():
    listed = [{"name": n, "description": f"The tool {n}.", "inputSchema": OBJECT} for n in names()]
    listed[0]["annotations"] = {"readOnlyHint": True, "destructiveHint": False}
    if state["extra"]:
        listed.append({"name": "later", "description": "New.", "inputSchema": OBJECT})
    if args.bad_tools:
        listed += [
            {"name": "schema_is_text", "inputSchema": "text"},
            {"name": "schema_is_missing"},
            {"name": "schema_of_array", "inputSchema": {"type": "array"}},
            {"name": 7, "inputSchema": OBJECT},
            {"name": "", "inputSchema": OBJECT},
            {"name": "bell\u0007\u001b[31m name", "inputSchema": OBJECT},
            {"name": "echo", "description": "An impostor.", "inputSchema": OBJECT},
        ]
    listed += [{"name": f"tool_{i}", "inputSchema": OBJECT} for i in range(args.many_tools)]
    return [] if args.no_tools else listed


def send(message):
    with out_lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def text(value, error=False):
    return {"content": [{"type": "text", "text": value}], "isError": error}


def note(line):
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Refused(Exception):
    def __init__(self, code, message):
        self.code, self.message = code, message


def call(request, say):
    """The result of a tool call, or None where no answer is to be given."""
    params = request["params"]
    name, given = params["name"], params.get("arguments", {})
    if name == "echo":
        return text(given.get("text", "nothing"))
    if name == "environment":
        return text(json.dumps(dict(os.environ)))
    if name == "cwd":
        return text(os.getcwd())
    if name == "die":
        note("dying as asked")
        os._exit(given.get("status", 3))
    if name == "hang":
        note(f"hanging {request['id']}")
        cancelled[request["id"]] = threading.Event()
        cancelled[request["id"]].wait()
        note(f"stopped {request['id']}")
        return None
    if name == "progress":
        token = params["_meta"]["progressToken"]
        for step in range(given.get("steps", 1)):
            time.sleep(given.get("pause", 0.01))
            say({"jsonrpc": "2.0", "method": "notifications/progress",
                 "params": {"progressToken": token, "progress": step}})
        return text("arrived") if given.get("arrive", True) else None
    if name == "huge_frame":
        return text("x" * (17 * 1024 * 1024))
    if name == "endless_frame":
        with out_lock:
            while True:
                sys.stdout.write("x" * 65536)
    if name == "big":
        return text("<" + "x" * given["bytes"] + ">")
    if name == "noise":
        with out_lock:
            for _ in range(given.get("lines", 1)):
                sys.stdout.write("Server running, {not json}\n")
            sys.stdout.flush()
        return text("after the noise")
    if name == "change":
        state["extra"] = True
        for _ in range(given.get("times", 1)):
            changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            if args.modern_only and "listener" not in state:
                continue  # nobody asked to be told
            if args.modern_only:
                changed["params"] = {"_meta": listener()}
            say(changed)
        return text("changed")
    if name == "later":
        return text("I am new")
    if name == "fail":
        return text("it did not work", True)
    if name == "refuse":
        raise Refused(-32602, "not with these arguments")
    if name == "append":
        with open(given["file"], "a") as file:
            file.write("called\n")
        if given.get("die"):
            os._exit(4)
        return text("appended")
    if name == "grandchild":
        child = subprocess.Popen(["sleep", "1000"])
        return text(str(child.pid))
    if name == "daemon":
        daemon = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        with open(given["file"], "w") as file:
            file.write(str(daemon.pid))
        os._exit(6)
    if name == "picture":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}
    if name == "structured":
        return {"structuredContent": {"answer": 42}, "content": []}
    if name == "close_stdout":
        os.close(1)
        return None
    if name == "batch":
        say([{"jsonrpc": "2.0", "id": request["id"], "result": text("in a batch")},
             {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}])
        return None
    if name == "odd_content":
        return {"content": [{"type": "hologram", "beam": 1}, {"type": "text", "text": "beside it"}]}
    if name == "expire":
        state["sessions"].clear()
        return text("expired")
    if name == "seen":
        return text(json.dumps(state["requests"]))
    if name == "pings":
        state["stuck"] = given.get("stuck", False)
        for number in range(given["count"]):
            say({"jsonrpc": "2.0", "id": f"ping-{number}", "method": "ping"})
            if not state["stuck"]:
                replies.acquire()
        return text("pinged")
    if name == "deny_next":
        args.refuse = given["status"]
        return text("denied from now on")
    raise Refused(-32602, f"no tool {name}")


def result_of(request, say):
    method = request["method"]
    if method == "server/discover" and args.modern_only:
        return {"resultType": "complete", "supportedVersions": [MODERN],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "fake", "version": "1"}, "ttlMs": 0, "cacheScope": "private"}
    if method == "initialize" and not args.modern_only:
        asked = request["params"]["protocolVersion"]
        return {"protocolVersion": args.protocol or asked, "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "fake", "version": "1"}, "instructions": "Use me well."}
    if method == "ping":
        return {}
    if args.modern_only and "_meta" not in request.get("params", {}):
        raise Refused(-32602, "no _meta")
    if method == "subscriptions/listen" and not args.http:
        state["listener"] = request["id"]
        say({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
             "params": {"notifications": request["params"]["notifications"], "_meta": listener()}})
        note("listening")
        return None
    if method == "tools/list":
        listed = {"tools": tools()}
        if args.endless_pages:
            listed["nextCursor"] = "more"
        return modern(listed)
    if method == "tools/call":
        return modern(call(request, say))
    raise Refused(-32601, f"no method {method}")


def listener():
    return {"io.modelcontextprotocol/subscriptionId": state["listener"]}


def modern(result):
    if args.modern_only and result is not None:
        result["resultType"] = "complete"
    return result


def answer(request, say):
    """The reply to a request, or None."""
    try:
        result = result_of(request, say)
    except Refused as refused:
        error = {"code": refused.code, "message": refused.message}
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}
    return None if result is None else {"jsonrpc": "2.0", "id": request["id"], "result": result}


def notified(message):
    if message["method"] == "notifications/cancelled":
        request = message["params"]["requestId"]
        note(f"cancelled {request}")
        if state.get("listener") == request:
            del state["listener"]
        if request in cancelled:
            cancelled[request].set()


def replied():
    """Takes a reply to a ping."""
    while state["stuck"]:
        time.sleep(1000)
    replies.release()


def serve_stdio():
    for line in sys.stdin:
        message = json.loads(line)
        if args.deaf:
            continue
        if "method" not in message:
            replied()
            continue
        if "method" in message and "id" in message:
            def work(message=message):
                reply = answer(message, send)
                if reply is not None:
                    send(reply)
            threading.Thread(target=work, daemon=True).start()
        elif "method" in message:
            notified(message)
    note("my input has ended")
    while args.stubborn:
        time.sleep(1000)


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def plain(self, status, body=b"", kind="text/plain", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refused(self):
        state["requests"].append({"path": self.path, "method": self.command, "headers": dict(self.headers),
                                  "at": time.monotonic()})
        if args.redirect and not self.path.startswith("/real/"):
            self.plain(307, headers=[("Location", args.redirect)])
        elif args.token and self.headers.get("Authorization") != f"Bearer {args.token}":
            self.plain(401, headers=[("WWW-Authenticate", "Bearer")])
        elif args.refuse:
            self.plain(args.refuse, b"go away")
        else:
            return False
        return True

    def do_GET(self):
        if self.refused():
            return
        if args.end_streams:
            return self.plain(200, b"id: 1\nretry: 0\ndata:\n\n", "text/event-stream")
        self.plain(405)

    def do_DELETE(self):
        if not self.refused():
            self.plain(405)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.refused():
            return
        message = json.loads(body)
        rpc = [message.get("method"), message.get("params", {}).get("name")]
        state["requests"].append({"rpc": ":".join(filter(None, rpc))})
        session = self.headers.get("Mcp-Session-Id")
        starts = message.get("method") in ("initialize", "server/discover")
        if not starts and not args.modern_only and session not in state["sessions"]:
            return self.plain(404, b"no such session")
        if "method" not in message:
            replied()
            return self.plain(202)
        if "id" not in message:
            notified(message)
            return self.plain(202)
        headers = []
        if starts and not args.modern_only:
            session = f"session-{state['next_session']}"
            state["next_session"] += 1
            state["sessions"].add(session)
            headers.append(("Mcp-Session-Id", session))
        self.reply(message, headers)

    def reply(self, message, headers):
        if not args.sse:
            body = json.dumps(answer(message, lambda _: None) or {}).encode()
            return self.plain(200, body, "application/json", headers)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

        def say(event):
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        reply = answer(message, say)
        if reply is not None:
            say(reply)
        self.close_connection = True


def main():
    if args.pid_file:
        with open(args.pid_file, "w") as file:
            file.write(str(os.getpid()))
    if args.stubborn:
        signal.signal(signal.SIGTERM, lambda *_: note("I do not want to"))
    for i in range(args.stderr_lines):
        note(f"line {i}")
    if args.exit_at_start is not None:
        note("I cannot start: no module named luck")
        sys.exit(args.exit_at_start)
    if args.exit_unless and not os.path.exists(args.exit_unless):
        note("the file is missing")
        sys.exit(5)
    for _ in range(args.noise_at_start):
        sys.stdout.write("n" * 1023 + "\n")
    if args.http:
        server = ThreadingHTTPServer(("127.0.0.1", args.port), Http)
        server.daemon_threads = True
        print(server.server_address[1], flush=True)
        server.serve_forever()
    else:
        serve_stdio()


main()
