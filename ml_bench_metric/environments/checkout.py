"""The files of a repository at its pinned commit: from a mirror on this machine, else cloned from its URL."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ml_bench_metric.environments.build_log import BuildLog
from ml_bench_metric.environments.recipe import Checkout

GIT_SECONDS = 900
_OF_ANOTHER_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
)
"""Set where a build is started by a hook of git."""
_DEPTH = 3
"""How far below the folder of mirrors a mirror may lie."""


@contextlib.contextmanager
def checked_out(repository: Checkout, mirrors: Path | None, log: BuildLog) -> Iterator[Path]:
    """Yield a temporary folder with the repository's files at its commit, without `.git`.

    Args:
        repository: what to check out.
        mirrors: a folder of git repositories, bare or not, which are found by the repository's name; None: clone.
        log: of the build.

    Raises:
        BuildError: a mirror is there but lacks the commit or some of its files, or the clone failed.
    """
    with tempfile.TemporaryDirectory(prefix="ml-bench-checkout-") as name:
        work = Path(name)
        found = find_mirrors(mirrors, repository.name) if mirrors else []
        if found:
            source = _with_commit(found, repository, log)
        else:
            if mirrors:
                log.note(f"no mirror of {repository.name} in {mirrors}")
            source = _clone(repository, work / "clone", log)
        files = work / "files"
        files.mkdir()
        _export(source, repository, files, work, log)
        yield files


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


def _with_commit(mirrors: list[Path], repository: Checkout, log: BuildLog) -> Path:
    step = f"commit {repository.commit[:12]} of {repository.name} in {', '.join(map(str, mirrors))}"
    with log.step(step):
        for mirror in mirrors:
            if _git(mirror, ["cat-file", "-e", repository.commit + "^{commit}"], log) == 0:
                return mirror
        raise log.error(
            step,
            f"commit {repository.commit} is not there; bring the mirror up to date "
            f"(git fetch {repository.url} {repository.commit}), or leave out --repositories to clone the repository",
        )


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


def _export(source: Path, repository: Checkout, folder: Path, work: Path, log: BuildLog) -> None:
    step = f"checkout of {repository.name} at {repository.commit[:12]}"
    variables = {
        "GIT_INDEX_FILE": str(work / "index"),
        # What a user's or a machine's configuration changes in a checkout (line ends, filters) must not reach an image.
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_WORK_TREE": str(folder),
    }
    with log.step(step):
        if _git(source, ["read-tree", repository.commit], log, variables):
            raise log.error(step, f"{source} lacks a part of commit {repository.commit}; bring it up to date")
        # Not `git archive`: it leaves out and rewrites files as the repository's attributes ask.
        if _git(source, ["checkout-index", "--all", "--force"], log, variables):
            raise log.error(step, f"{source} lacks files of commit {repository.commit}; take a complete mirror")


def _git(folder: Path, arguments: list[str], log: BuildLog, variables: Mapping[str, str] | None = None) -> int:
    """Run git on a repository, its output into the log; return its status."""
    repository = folder / ".git" if (folder / ".git").exists() else folder
    command = ["git", "--git-dir", str(repository), *arguments]
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY}
    environ = {**inherited, "GIT_TERMINAL_PROMPT": "0", **(variables or {})}
    return log.run(command, seconds=GIT_SECONDS, environ=environ)
