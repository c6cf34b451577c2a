"""The files of a repository at its pinned commit: from a mirror on this machine, else cloned from its URL."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.images import content_digest
from ml_bench_metric.environments.recipe import Checkout

GIT_SECONDS = 900
_OF_ANOTHER_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
)
"""Set where a build is started by a hook of git."""
_DEPTH = 3
"""How far below the folder of mirrors a mirror may lie."""
_SHOWN = 5
"""How many missing files are named."""


@dataclass(frozen=True)
class Source:
    """Where the files of a repository's commit are."""

    repository: Checkout
    mirror: Path | None
    """A git repository of this machine; None: it is cloned."""
    missing: tuple[str, ...]
    """Files of the commit that the mirror lacks, by path: public snapshots leave out the largest."""

    @property
    def digest(self) -> str:
        """What tells the files from others: the commit, with what is missing of it."""
        if not self.missing:
            return self.repository.commit
        return content_digest("incomplete", self.repository.commit, self.missing)


def find_source(repository: Checkout, mirrors: Path | None) -> Source:
    """Return where a repository's files are to be taken from.

    Args:
        repository: what will be checked out.
        mirrors: a folder of git repositories, bare or not, which are found by the repository's name; None: clone.

    Raises:
        BuildError: mirrors are there, but none has the commit; the message says what to do.
    """
    found = find_mirrors(mirrors, repository.name) if mirrors else []
    if not found:
        return Source(repository, None, ())
    for mirror in found:
        if _ask(mirror, ["cat-file", "-e", repository.commit + "^{commit}"]) is not None:
            return Source(repository, mirror, _missing(mirror, repository))
    raise BuildError(
        f"{repository.name}: commit {repository.commit} is not in {', '.join(map(str, found))}; bring the mirror up to "
        f"date (git fetch {repository.url} {repository.commit}), or leave out --repositories to clone the repository"
    )


@contextlib.contextmanager
def checked_out(source: Source, log: BuildLog) -> Iterator[Path]:
    """Yield a temporary folder with a repository's files at its commit, without `.git`.

    Files that a mirror lacks are listed in the log, and left out.

    Raises:
        BuildError: the clone failed, or the files cannot be written.
    """
    repository = source.repository
    with tempfile.TemporaryDirectory(prefix="ml-bench-checkout-") as name:
        work = Path(name)
        if source.mirror is None:
            mirror = _clone(repository, work / "clone", log)
        else:
            mirror = source.mirror
            if source.missing:
                log.note(_lacks(source))
        files = work / "files"
        files.mkdir()
        _export(mirror, source, files, work, log)
        yield files


def _lacks(source: Source) -> str:
    shown = ", ".join(source.missing[:_SHOWN])
    more = f" and {len(source.missing) - _SHOWN} more" if len(source.missing) > _SHOWN else ""
    return f"{source.mirror} lacks {len(source.missing)} files of the commit, which are left out: {shown}{more}"


def find_mirrors(folder: Path, name: str) -> list[Path]:
    """Return the git repositories in a folder that may be a repository's mirror, ordered by path.

    A repository counts if a folder on the way to it is called `<name>`, `<name>.git`, or `<owner><separator><name>`
    with one of `+ _ ~ : @` between; case does not matter.
    """
    pattern = re.compile(rf"(?:.*[+_~:@])?{re.escape(name)}(?:\.git)?", re.IGNORECASE)
    return [
        found
        for found in _git_folders(folder, _DEPTH)
        if any(pattern.fullmatch(part) for part in (folder.absolute().name, *found.relative_to(folder).parts))
    ]


def _git_folders(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / ".git").exists() or all((folder / part).exists() for part in ("HEAD", "objects", "refs")):
        yield folder
    elif depth and folder.is_dir() and os.access(folder, os.R_OK | os.X_OK):
        for inner in sorted(folder.iterdir()):
            yield from _git_folders(inner, depth - 1)


def _missing(mirror: Path, repository: Checkout) -> tuple[str, ...]:
    """Return the paths of a commit's files whose contents a mirror lacks, ordered."""
    listing = _ask(mirror, ["ls-tree", "-r", "-z", repository.commit])
    if listing is None:
        raise BuildError(
            f"{repository.name}: {mirror} lacks folders of commit {repository.commit}; bring it up to date, or leave "
            "out --repositories to clone the repository"
        )
    paths: dict[str, list[str]] = {}
    for entry in filter(None, listing.split(b"\0")):
        facts, _, path = entry.partition(b"\t")
        _, kind, content = facts.decode().split()
        if kind == "blob":
            paths.setdefault(content, []).append(os.fsdecode(path))
    answers = _ask(mirror, ["cat-file", "--batch-check"], "".join(f"{content}\n" for content in paths).encode()) or b""
    lacking = [line.split()[0].decode() for line in answers.splitlines() if line.endswith(b" missing")]
    return tuple(sorted(path for content in lacking for path in paths[content]))


def _clone(repository: Checkout, folder: Path, log: BuildLog) -> Path:
    step = f"fetch {repository.commit[:12]} of {repository.url}"
    with log.step(step):
        folder.mkdir()
        commands = (
            ["init", "--quiet", "--bare"],
            ["fetch", "--quiet", "--depth=1", repository.url, repository.commit],
        )
        if any(_git(folder, command, log) for command in commands):
            raise log.error(
                step,
                "git failed. Where the network is closed, give a folder with a mirror of the repository "
                "(--repositories DIR)",
            )
    return folder


def _export(mirror: Path, source: Source, folder: Path, work: Path, log: BuildLog) -> None:
    repository = source.repository
    step = f"checkout of {repository.name} at {repository.commit[:12]}"
    variables = {
        "GIT_INDEX_FILE": str(work / "index"),
        # What a user's or a machine's configuration changes in a checkout (line ends, filters) must not reach an image.
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_WORK_TREE": str(folder),
    }
    with log.step(step):
        if _git(mirror, ["read-tree", repository.commit], log, variables):
            raise log.error(step, f"{mirror} lacks a part of commit {repository.commit}; bring it up to date")
        if source.missing:
            listed = b"".join(os.fsencode(path) + b"\0" for path in source.missing)
            _ask(mirror, ["update-index", "--force-remove", "-z", "--stdin"], listed, variables)
        # Not `git archive`: it leaves out and rewrites files as the repository's attributes ask.
        if _git(mirror, ["checkout-index", "--all", "--force"], log, variables):
            raise log.error(step, f"the files of {mirror} could not be written")


def _git(folder: Path, arguments: list[str], log: BuildLog, variables: Mapping[str, str] | None = None) -> int:
    """Run git on a repository, its output into the log; return its status."""
    return log.run(_command(folder, arguments), seconds=GIT_SECONDS, environ=_environ(variables))


def _ask(
    folder: Path, arguments: list[str], standard_input: bytes = b"", variables: Mapping[str, str] | None = None
) -> bytes | None:
    """Return what git says of a repository; None if it fails."""
    try:
        return subprocess.run(
            _command(folder, arguments),
            input=standard_input,
            env=_environ(variables),
            capture_output=True,
            timeout=GIT_SECONDS,
            check=True,
        ).stdout
    except FileNotFoundError as error:
        raise BuildError("git is not installed (Debian, Ubuntu: apt-get install git)") from error
    except subprocess.SubprocessError:
        return None


def _command(folder: Path, arguments: list[str]) -> list[str]:
    return ["git", "--git-dir", str(folder / ".git" if (folder / ".git").exists() else folder), *arguments]


def _environ(variables: Mapping[str, str] | None) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY}
    # A partial clone would fetch what it lacks, one file at a time.
    return {**inherited, "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", **(variables or {})}
