"""A git host of our own: real repositories behind git's own http-backend, with a token check, over HTTP."""

import base64
import contextlib
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LONG = 2**21  # bytes of an answer


class GitHost:
    """Serves the repositories below a folder."""

    def __init__(self, folder: Path) -> None:
        """Serve on a free port."""
        self.folder = folder
        self.tokens: dict[str, str] = {}  # path of a repository → the token it asks for
        self.calls: list[str] = []
        self.redirect = ""  # where every call is sent to instead
        self.stall = threading.Event()  # set: calls are answered; clear: they hang
        self.stall.set()
        self.drip = threading.Event()  # set: answers come whole; clear: the rest of a long one hangs
        self.drip.set()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _calls_of(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        """Go away."""
        self.stall.set()
        self.drip.set()
        self.server.shutdown()
        self.server.server_close()

    def project(self, name: str, token: str = "") -> "Project":
        """Return a new repository, such as `vision/resnet`."""
        path = self.folder / f"{name}.git"
        path.mkdir(parents=True)
        git(path, "init", "--quiet", "--bare", "--initial-branch=master")
        if token:
            self.tokens[f"/{name}.git"] = token
        return Project(self, name, path)

    def admits(self, path: str, credentials: str) -> bool:
        """Say whether the call may see the repository."""
        wanted = next((token for start, token in self.tokens.items() if path.startswith(start)), None)
        given = base64.b64decode(credentials.removeprefix("Basic ")).decode()
        return wanted is None or given.partition(":")[2] == wanted


class Project:
    """One repository of the host."""

    def __init__(self, host: GitHost, name: str, path: Path) -> None:
        """See the repository at `path`."""
        self.url = f"{host.url}/{name}.git"
        self.path = path

    def commit(self, branch: str = "master", **files: str) -> str:
        """Add a commit with these files to a branch; return its id. An underscore stands for a name's dot."""
        for name, text in files.items():
            blob = git(self.path, "hash-object", "-w", "--stdin", input=text)
            git(self.path, "update-index", "--add", "--cacheinfo", f"100755,{blob},{name.replace('_', '.')}")
        tree = git(self.path, "write-tree")
        known = git(self.path, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        made = git(self.path, "commit-tree", tree, *(["-p", known] if known else []), "-m", "a change")
        git(self.path, "update-ref", f"refs/heads/{branch}", made)
        return made


def git(folder: Path, *arguments: str, input: str | None = None) -> str:
    """Run git in `folder`; return what it says."""
    who = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    env = {**os.environ, **who, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    run = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env=env,
        input=input,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


def _calls_of(host: GitHost) -> type[BaseHTTPRequestHandler]:
    class Calls(BaseHTTPRequestHandler):
        """Git's smart HTTP, by its own program."""

        def do_GET(self) -> None:
            """Answer a call."""
            host.calls.append(self.path)
            host.stall.wait()
            path, _mark, query = self.path.partition("?")
            if host.redirect:
                self.say(301, {"Location": host.redirect + self.path})
            elif not (host.folder / path.split(".git/")[0].strip("/")).with_suffix(".git").is_dir():
                self.say(404, {})
            elif not host.admits(path, self.headers.get("Authorization", "")):
                self.say(401, {"WWW-Authenticate": 'Basic realm="git"'})
            else:
                self.serve(path, query)

        do_POST = do_GET

        def say(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def serve(self, path: str, query: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(host.folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            run = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True)
            head, _gap, content = run.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # git was ended meanwhile
                self.wfile.write(content[:LONG])
                if len(content) > LONG:
                    host.drip.wait()
                self.wfile.write(content[LONG:])

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Calls
