"""Publishing a folder: what would change on the Hub, and doing it in one commit.

The repository on the Hub holds the manifest of what was pushed last. With it a push tells its own files from those of
others: it replaces and removes the former, and leaves the latter alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ml_bench_hub.client import explained, require_token
from ml_bench_hub.errors import HubError, some
from ml_bench_hub.folder import MANIFEST, File, Kind, Manifest, describe, differences, parse_manifest, read_manifest
from ml_bench_metric.judge import harness_version

if TYPE_CHECKING:
    from huggingface_hub import HfApi

RepoType = Literal["dataset", "space"]
REPO_TYPES: dict[Kind, RepoType] = {"dataset": "dataset", "harbor": "dataset", "space": "space"}
"""Kind of a folder -> kind of the repository that it becomes."""

_HUBS_OWN = ".gitattributes"
"""The Hub puts this file into every new repository."""


@dataclass(frozen=True)
class Change:
    """What a push does to one file."""

    path: str
    kind: Literal["added", "changed", "removed"]
    before: int | None
    """Size on the Hub, in bytes; None where it is not there."""
    after: int | None
    """Size in the folder, in bytes; None where it is removed."""


@dataclass(frozen=True)
class Plan:
    """What a push would do to a repository."""

    folder: Path
    repo_id: str
    repo_type: RepoType
    space_sdk: str | None
    creates: bool
    """Whether the repository does not exist yet."""
    head: str | None
    """Commit that the repository was read at."""
    changes: tuple[Change, ...]
    kept: tuple[str, ...]
    """Files of an earlier push that the folder has no more, but that somebody else has changed since: they stay."""


@dataclass(frozen=True)
class _RemoteFile:
    size: int
    sha256: str | None
    """Known of large files only."""
    blob: str

    def is_like(self, file: File) -> bool:
        return self.sha256 == file.sha256 if self.sha256 is not None else self.blob == file.blob


@dataclass(frozen=True)
class _Remote:
    head: str | None
    files: dict[str, _RemoteFile]
    manifest: Manifest | None


def plan_push(
    api: HfApi, folder: Path, namespace: str | None = None, *, space_sdk: str | None = None, overwrite: bool = False
) -> Plan:
    """Return what publishing a folder would change; nothing is written.

    Args:
        api: the client, see `client.connect`.
        folder: made by `ml-bench hub build`, and unchanged since.
        namespace: of the repository; None: the one that the folder was built for.
        space_sdk: of a Space that does not exist yet.
        overwrite: whether files that ml-bench did not write may be replaced.

    Raises:
        HubError: the folder is not as it was built, or was built for nobody or for another namespace, or from the
            sample; the Hub cannot be read; or the repository or a file to be replaced is not ml-bench's.
    """
    manifest = read_manifest(folder)
    if changed := differences(folder, manifest):
        raise HubError(f"{folder} is not as it was built: {some(changed)}; build it again")
    repo_type = REPO_TYPES[manifest.kind]
    repo_id = f"{_namespace(folder, manifest, namespace)}/{manifest.name}"
    with explained(f"{repo_type} {repo_id}"):
        remote = _read_remote(api, repo_id, repo_type, manifest)
    strangers = sorted(remote.files.keys() - {_HUBS_OWN}) if remote.manifest is None else []
    if strangers and not overwrite:
        raise HubError(
            f"{repo_type} {repo_id} exists, and ml-bench did not make it: it holds {some(strangers)}; look at it, "
            "then push with --overwrite to put the folder's files beside and over those"
        )
    changes, kept, foreign = [], [], []
    local = {**manifest.files, MANIFEST: describe((folder / MANIFEST).read_bytes())}
    for path, file in sorted(local.items()):
        there = remote.files.get(path)
        if there is None:
            changes.append(Change(path, "added", None, file.size))
        elif not there.is_like(file):
            changes.append(Change(path, "changed", there.size, file.size))
            if not _is_ours(path, there, remote):
                foreign.append(path)
    for path, there in sorted(remote.files.items()):
        if path not in local and remote.manifest is not None and path in remote.manifest.files:
            if _is_ours(path, there, remote):
                changes.append(Change(path, "removed", there.size, None))
            else:
                kept.append(path)
    if foreign and not overwrite:
        raise HubError(
            f"{repo_type} {repo_id}: {some(foreign)} on the Hub is not what ml-bench wrote there; look at it, then "
            "push with --overwrite to replace it"
        )
    return Plan(folder, repo_id, repo_type, space_sdk, remote.head is None, remote.head, tuple(changes), tuple(kept))


def push(api: HfApi, plan: Plan, *, private: bool = False) -> str:
    """Do what a plan says, in one commit, and return the address of that commit.

    Args:
        api: the client.
        plan: of a push that changes something.
        private: whether a repository that does not exist yet is made private.

    Raises:
        HubError: there is no token, the Hub refuses, or the repository has changed since the plan was made.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    require_token(api)
    operations = [
        CommitOperationDelete(change.path)
        if change.kind == "removed"
        else CommitOperationAdd(change.path, (plan.folder / change.path).read_bytes())
        for change in plan.changes
    ]
    with explained(f"{plan.repo_type} {plan.repo_id}"):
        if plan.creates:
            sdk = plan.space_sdk if plan.repo_type == "space" else None
            api.create_repo(plan.repo_id, repo_type=plan.repo_type, private=private or None, space_sdk=sdk)
        commit = api.create_commit(
            plan.repo_id,
            operations,
            commit_message=f"ml-bench {harness_version()}: {len(plan.changes)} files",
            repo_type=plan.repo_type,
            parent_commit=plan.head,
        )
    return str(commit.commit_url)


def _namespace(folder: Path, manifest: Manifest, wanted: str | None) -> str:
    if manifest.source == "sample":
        raise HubError(f"{folder} was built from the sample, which is no benchmark to publish; build it from ML-Bench")
    if manifest.namespace is None:
        name = wanted or "NAME"
        raise HubError(f"{folder} was built for no namespace, which its README needs: build it with --namespace {name}")
    if wanted not in (None, manifest.namespace):
        raise HubError(
            f"{folder} was built for {manifest.namespace!r}, and its README says so: build it with --namespace {wanted}"
        )
    return manifest.namespace


def _read_remote(api: HfApi, repo_id: str, repo_type: RepoType, manifest: Manifest) -> _Remote:
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        head = api.repo_info(repo_id, repo_type=repo_type).sha
    except RepositoryNotFoundError:
        return _Remote(None, {}, None)
    files = dict(_remote_files(api, repo_id, repo_type, head))
    if MANIFEST not in files:
        return _Remote(head, files, None)
    path = api.hf_hub_download(repo_id, MANIFEST, repo_type=repo_type, revision=head)
    found = parse_manifest(Path(path).read_bytes(), f"{repo_type} {repo_id}: {MANIFEST}")
    if found.kind != manifest.kind:
        raise HubError(f"{repo_type} {repo_id} holds a {found.kind}, and the folder a {manifest.kind}")
    return _Remote(head, files, found)


def _remote_files(api: HfApi, repo_id: str, repo_type: RepoType, head: str | None) -> Iterator[tuple[str, _RemoteFile]]:
    from huggingface_hub.hf_api import RepoFile

    for entry in api.list_repo_tree(repo_id, recursive=True, revision=head, repo_type=repo_type):
        if isinstance(entry, RepoFile):
            sha256 = entry.lfs.sha256 if entry.lfs is not None else None
            yield entry.path, _RemoteFile(entry.size, sha256, entry.blob_id)


def _is_ours(path: str, there: _RemoteFile, remote: _Remote) -> bool:
    if path == MANIFEST:
        return True
    return remote.manifest is not None and path in remote.manifest.files and there.is_like(remote.manifest.files[path])
