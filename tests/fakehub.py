"""An in-memory Hugging Face Hub on loopback, for tests with the real clients: `with FakeHub() as hub: hub.url`.

It answers what huggingface_hub, datasets and evaluate ask for: repositories with commits, trees, refs, pull requests,
LFS uploads (the clients need HF_HUB_DISABLE_XET=1), downloads with ranges. It refuses as the Hub does: no token, a
token without the right, an unknown repository, a commit on a head that has moved, broken front matter.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, cast

import yaml

Kind = Literal["models", "datasets", "spaces"]
Files = dict[str, bytes]

WRITER = "hf_x"
"""Token of user `tester`, who may write to their own namespace and those of their organisations."""
READER = "hf_reader"
"""Token of the same user, for reading only."""

_NAMESPACES = ("tester", "me", "evaluate-metric")
_LARGE = (".parquet", ".arrow", ".bin", ".safetensors")
_DATE = "2026-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class Commit:
    """A commit: its name, all files after it, its message."""

    sha: str
    files: Files
    message: str


@dataclass
class Repo:
    """A repository. A new one has what the Hub puts into it."""

    private: bool = False
    sdk: str | None = None
    commits: list[Commit] = field(default_factory=list)
    refs: dict[str, str] = field(default_factory=dict)

    def commit(self, files: Files, message: str, ref: str = "main") -> str:
        """Add a commit with all files after it, and return its name."""
        facts = (len(self.commits), message, sorted((path, _blob(content)) for path, content in files.items()))
        sha = hashlib.sha1(repr(facts).encode()).hexdigest()
        self.commits.append(Commit(sha, dict(files), message))
        self.refs[ref] = sha
        return sha

    def at(self, revision: str) -> Commit | None:
        """Return the commit of a branch, tag, pull request or name."""
        sha = self.refs.get(revision, revision)
        return next((commit for commit in self.commits if commit.sha == sha), None)

    @property
    def files(self) -> Files:
        """Path -> content, on `main`."""
        commit = self.at("main")
        return dict(commit.files) if commit else {}


@dataclass(frozen=True)
class Call:
    """A request that was answered."""

    method: str
    path: str
    status: int


@dataclass
class _Failure:
    method: str
    pattern: str
    status: int
    message: str
    times: int


class FakeHub:
    """The server, as a context manager. Everything that it holds can be looked at and changed."""

    def __init__(self, port: int = 0) -> None:
        self.repos: dict[tuple[Kind, str], Repo] = {}
        self.lfs: Files = {}
        self.calls: list[Call] = []
        self.lock = threading.RLock()
        self.failures: list[_Failure] = []
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.hub = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FakeHub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def clear(self) -> None:
        """Forget everything."""
        for held in (self.repos, self.lfs, self.calls, self.failures):
            held.clear()

    def create(self, kind: Kind, repo_id: str, files: Mapping[str, bytes] | None = None, **facts: Any) -> Repo:
        """Make a repository; files are a second commit, by somebody."""
        repo = Repo(**facts)
        repo.commit({".gitattributes": b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"}, "initial commit")
        if files:
            repo.commit({**repo.files, **files}, "by somebody")
        self.repos[kind, repo_id] = repo
        return repo

    def fail(self, method: str, pattern: str, status: int, message: str = "", times: int = 1) -> None:
        """Answer the next requests whose path contains a match of the pattern with an error."""
        self.failures.append(_Failure(method, pattern, status, message, times))

    def failure(self, method: str, path: str) -> _Failure | None:
        """Return the error that a request is to meet, and count it."""
        for failure in self.failures:
            if failure.times and failure.method == method and re.search(failure.pattern, path):
                failure.times -= 1
                return failure
        return None

    def environment(self, home: Path, token: str | None = WRITER) -> dict[str, str]:
        """Return what a process needs in its environment to meet this Hub, and nothing of the user's own settings.

        The clients read it when they are imported, so that each Hub needs processes of its own.
        """
        variables = {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_OFFLINE": "0",
            "HF_DATASETS_OFFLINE": "0",
            "HF_EVALUATE_OFFLINE": "0",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        }
        return variables | ({"HF_TOKEN": token} if token else {})

    def paths_of(self, method: str) -> list[str]:
        """Return the paths of all requests of a method so far, without their queries."""
        return [call.path.partition("?")[0] for call in self.calls if call.method == method]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: FakeHub


class _Refusal(Exception):  # noqa: N818 - it names the situation
    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _entry(files: Files, path: str) -> dict[str, Any] | None:
    if path in files:
        content = files[path]
        found = {"type": "file", "path": path, "size": len(content), "oid": _blob(content)}
        if path.endswith(_LARGE):
            # The blob of a large file is its pointer: its name is not that of the content.
            found["oid"] = _blob(_sha256(content).encode())
            found["lfs"] = {"oid": _sha256(content), "size": len(content), "pointerSize": 134}
        return found
    if path == "" or any(name.startswith(path + "/") for name in files):
        return {"type": "directory", "path": path, "size": 0, "oid": hashlib.sha1(path.encode()).hexdigest()}
    return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        hub = self.server.hub
        parts = urllib.parse.urlsplit(self.path)
        self._path = urllib.parse.unquote(parts.path)
        self._query = urllib.parse.parse_qs(parts.query)
        self._body = self._read_body()
        failure = hub.failure(self.command, self._path)
        try:
            if failure is not None:
                raise _Refusal(failure.status, "", failure.message)
            with hub.lock:
                for pattern, route in _ROUTES:
                    if match := re.fullmatch(pattern, self._path):
                        return route(self, **match.groupdict())
            raise _Refusal(404, "NotFound", self._path)
        except _Refusal as refusal:
            headers = {"X-Error-Code": refusal.code, "X-Error-Message": refusal.message}
            self._reply(refusal.status, {"error": refusal.message}, {k: v for k, v in headers.items() if v})

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - the names are http.server's

    def _read_body(self) -> bytes:
        if length := int(self.headers.get("Content-Length") or 0):
            return self.rfile.read(length)
        body = b""
        while "chunked" in (self.headers.get("Transfer-Encoding") or ""):
            size = int(self.rfile.readline().strip() or b"0", 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                break
        return body

    def _reply(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        kind = {} if isinstance(content, bytes) else {"Content-Type": "application/json"}
        self.server.hub.calls.append(Call(self.command, self.path, status))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    # ------------------------------------------------------------ who asks

    @property
    def _token(self) -> str | None:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None

    def _require_writer(self, namespace: str, *, anywhere: bool = False) -> None:
        if self._token is None:
            raise _Refusal(401, "", "Invalid username or password.")
        if self._token not in (WRITER, READER):
            raise _Refusal(401, "", "Invalid credentials in Authorization header")
        if self._token == READER or not (anywhere or namespace in _NAMESPACES):
            raise _Refusal(403, "", f"You don't have the rights to write to {namespace}")

    def _repo(self, kind: Kind, repo_id: str) -> Repo:
        repo = self.server.hub.repos.get((kind, repo_id))
        known = self._token in (WRITER, READER)
        if repo is None or (repo.private and not known):
            # To strangers the Hub does not tell private from missing.
            raise _Refusal(404 if known else 401, "RepoNotFound", "Repository not found")
        return repo

    def _commit(self, repo: Repo, revision: str) -> Commit:
        commit = repo.at(revision)
        if commit is None:
            raise _Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    # ------------------------------------------------------------ routes

    def _whoami(self) -> None:
        if self._token not in (WRITER, READER):
            raise _Refusal(401, "", "Invalid credentials in Authorization header")
        role = "write" if self._token == WRITER else "read"
        orgs = [{"name": name} for name in _NAMESPACES[1:]]
        self._reply(200, {"type": "user", "name": "tester", "orgs": orgs, "auth": {"accessToken": {"role": role}}})

    def _validate_yaml(self) -> None:
        block = re.match(r"\s*---\r?\n(.*?)\r?\n---", json.loads(self._body)["content"], re.DOTALL)
        try:
            content = yaml.safe_load(block[1]) if block else {}
            errors = [] if isinstance(content, dict) else ["the metadata are no mapping"]
        except yaml.YAMLError as error:
            errors = [str(error)]
        self._reply(400 if errors else 200, {"errors": [{"message": text} for text in errors], "warnings": []})

    def _create(self) -> None:
        hub, wanted = self.server.hub, json.loads(self._body)
        kind = cast(Kind, f"{wanted.get('type') or 'model'}s")
        namespace = wanted.get("organization") or "tester"
        self._require_writer(namespace)
        repo_id = f"{namespace}/{wanted['name']}"
        url = f"{hub.url}/{'' if kind == 'models' else kind + '/'}{repo_id}"
        if (kind, repo_id) in hub.repos:
            self._reply(409, {"error": "You already created this repo", "url": url})
            return
        if kind == "spaces" and not wanted.get("sdk"):
            raise _Refusal(400, "", "a Space needs an sdk")
        private = wanted.get("visibility") == "private" or bool(wanted.get("private"))
        hub.create(kind, repo_id, private=private, sdk=wanted.get("sdk"))
        self._reply(200, {"url": url, "name": repo_id, "id": repo_id})

    def _lfs_batch(self, kind: str | None, repo_id: str) -> None:
        hub = self.server.hub
        self._require_writer(repo_id.partition("/")[0])
        objects = []
        for wanted in json.loads(self._body)["objects"]:
            action = {"upload": {"href": f"{hub.url}/_lfs/{wanted['oid']}"}}
            objects.append(
                {**wanted, "authenticated": True, **({} if wanted["oid"] in hub.lfs else {"actions": action})}
            )
        kind_of_answer = {"Content-Type": "application/vnd.git-lfs+json"}
        self._reply(200, {"transfer": "basic", "objects": objects}, kind_of_answer)

    def _lfs_put(self, oid: str) -> None:
        if _sha256(self._body) != oid:
            raise _Refusal(400, "BadOid", "the content is not what was announced")
        self.server.hub.lfs[oid] = self._body
        self._reply(200, b"")

    def _info(self, kind: Kind, repo_id: str, revision: str = "main") -> None:
        repo = self._repo(kind, repo_id)
        commit = self._commit(repo, revision)
        siblings = [
            {"rfilename": path, "size": len(content), "blobId": _blob(content)}
            for path, content in sorted(commit.files.items())
        ]
        facts = {"_id": "0", "id": repo_id, "sha": commit.sha, "private": repo.private, "gated": False, "sdk": repo.sdk}
        dates = {"lastModified": _DATE, "createdAt": _DATE}
        counts = {"disabled": False, "downloads": 0, "likes": 0, "tags": [], "author": repo_id.partition("/")[0]}
        self._reply(200, {**facts, **dates, **counts, "siblings": siblings})

    def _refs(self, kind: Kind, repo_id: str) -> None:
        repo = self._repo(kind, repo_id)
        branches = [{"name": "main", "ref": "refs/heads/main", "targetCommit": repo.refs["main"]}]
        tags = [
            {"name": name, "ref": f"refs/tags/{name}", "targetCommit": sha}
            for name, sha in repo.refs.items()
            if name != "main" and not name.startswith("refs/")
        ]
        self._reply(200, {"branches": branches, "tags": tags, "converts": [], "pullRequests": []})

    def _tree(self, kind: Kind, repo_id: str, revision: str, path: str | None) -> None:
        files = self._commit(self._repo(kind, repo_id), revision).files
        prefix = f"{path.strip('/')}/" if path and path.strip("/") else ""
        names = sorted(name for name in files if name.startswith(prefix))
        if prefix and not names:
            raise _Refusal(404, "EntryNotFound", f"{path} does not exist")
        recursive = (self._query.get("recursive") or ["false"])[0].lower() in ("1", "true")
        found: dict[str, Any] = {}
        for name in names:
            inner = name[len(prefix) :].split("/")
            for depth in range(1, (len(inner) if recursive else 1) + 1):
                part = prefix + "/".join(inner[:depth])
                found.setdefault(part, _entry(files, part))
        self._reply(200, list(found.values()))

    def _paths_info(self, kind: Kind, repo_id: str, revision: str) -> None:
        files = self._commit(self._repo(kind, repo_id), revision).files
        if "json" in (self.headers.get("Content-Type") or ""):
            paths = json.loads(self._body)["paths"]
        else:
            paths = urllib.parse.parse_qs(self._body.decode()).get("paths", [])
        self._reply(200, [entry for entry in (_entry(files, path.strip("/")) for path in paths) if entry])

    def _preupload(self, kind: Kind, repo_id: str, revision: str) -> None:
        repo = self._repo(kind, repo_id)
        self._require_writer(repo_id.partition("/")[0], anywhere="create_pr" in self._query)
        wanted = json.loads(self._body)["files"]
        mode = {True: "lfs", False: "regular"}
        files = [
            {"path": one["path"], "uploadMode": mode[one["path"].endswith(_LARGE)], "shouldIgnore": False, "oid": None}
            for one in wanted
        ]
        self._reply(200, {"files": files, "commitOid": self._commit(repo, revision).sha})

    def _push(self, kind: Kind, repo_id: str, revision: str) -> None:
        hub, repo = self.server.hub, self._repo(kind, repo_id)
        pull_request = "create_pr" in self._query
        self._require_writer(repo_id.partition("/")[0], anywhere=pull_request)
        files, header = dict(self._commit(repo, revision).files), {"summary": ""}
        for line in self._body.decode().splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "header":
                header = value
            elif operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = hub.lfs[value["oid"]]
            elif operation["key"] == "deletedFile":
                if files.pop(value["path"], None) is None:
                    raise _Refusal(404, "EntryNotFound", "A file with this name doesn't exist")
            else:
                raise _Refusal(400, "", f"unknown operation {operation['key']}")
        if header.get("parentCommit") not in (None, repo.refs[revision]):
            raise _Refusal(412, "", "A commit has happened since. Please refresh and try again.")
        number = sum(ref.startswith("refs/pr/") for ref in repo.refs) + 1
        sha = repo.commit(files, header["summary"], f"refs/pr/{number}" if pull_request else revision)
        where = f"{hub.url}/{'' if kind == 'models' else kind + '/'}{repo_id}"
        pr_url = f"{where}/discussions/{number}" if pull_request else None
        self._reply(
            200, {"success": True, "commitOid": sha, "commitUrl": f"{where}/commit/{sha}", "pullRequestUrl": pr_url}
        )

    def _resolve(self, kind: Kind | None, repo_id: str, revision: str, path: str) -> None:
        commit = self._commit(self._repo(kind or "models", repo_id), revision)
        if path not in commit.files:
            raise _Refusal(404, "EntryNotFound", "Entry not found")
        content = commit.files[path]
        headers = {
            "ETag": f'"{_sha256(content) if path.endswith(_LARGE) else _blob(content)}"',
            "X-Repo-Commit": commit.sha,
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            begin, end = int(wanted[1]), min(int(wanted[2] or len(content) - 1), len(content) - 1)
            span = {"Content-Range": f"bytes {begin}-{end}/{len(content)}"}
            self._reply(206, content[begin : end + 1], {**headers, **span})
            return
        self._reply(200, content, headers)


# The real Hub has ids without a namespace too, and the clients ask for them.
_ID = r"(?P<repo_id>[^/]+(?:/[^/]+)?)"
_API = rf"/api/(?P<kind>models|datasets|spaces)/{_ID}"
_PUBLIC = rf"/(?:(?P<kind>datasets|spaces)/)?{_ID}"
_REVISION = r"(?P<revision>refs/[^/]+/[^/]+|[^/]+)"

_ROUTES: tuple[tuple[str, Callable[..., None]], ...] = (
    (r"/api/whoami-v2", _Handler._whoami),
    (r"/api/validate-yaml", _Handler._validate_yaml),
    (r"/api/repos/create", _Handler._create),
    (rf"{_PUBLIC}\.git/info/lfs/objects/batch", _Handler._lfs_batch),
    (r"/_lfs/(?P<oid>\w+)", _Handler._lfs_put),
    (rf"{_API}/revision/{_REVISION}", _Handler._info),
    (rf"{_API}/tree/{_REVISION}(?:/(?P<path>.*))?", _Handler._tree),
    (rf"{_API}/paths-info/{_REVISION}", _Handler._paths_info),
    (rf"{_API}/preupload/{_REVISION}", _Handler._preupload),
    (rf"{_API}/commit/{_REVISION}", _Handler._push),
    (rf"{_API}/refs", _Handler._refs),
    (_API, _Handler._info),
    (rf"{_PUBLIC}/resolve/{_REVISION}/(?P<path>.+)", _Handler._resolve),
)


def serve(hub: FakeHub) -> Iterator[FakeHub]:
    """Yield the running Hub: the body of a fixture."""
    with hub:
        yield hub
