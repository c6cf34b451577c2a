"""Where the text of a task's repository comes from: a git mirror, a folder, a clone, an image, or a package."""

from __future__ import annotations

import tempfile
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ml_bench_metric.cache_folder import cache_folder
from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.checkout import checked_out, find_mirrors, find_source
from ml_bench_metric.environments.recipe import Checkout, RecipeError
from ml_bench_metric.environments.registry import EnvironmentUnknown, recipe_for
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import WORKSPACE, Task
from ml_bench_solvers.digest_cache import DigestCache
from ml_bench_solvers.prompt_error import RepositoryError
from ml_bench_solvers.repository_text import RepositoryText, unpacked
from ml_bench_solvers.text_files import RULES_VERSION, TextFile, read_folder, read_tar

if TYPE_CHECKING:
    from ml_bench_metric.environments.images import EnvironmentImage

_REMEMBERED = 3
"""Texts that are held in memory: they take up to 100 MB each, and tasks come ordered by repository."""


class RepositoryTexts:
    """The texts of tasks' repositories. Any number of threads may ask."""

    def __init__(
        self,
        mirrors: Path | None = None,
        *,
        from_images: bool = False,
        cache: DigestCache | None = None,
        progress: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Know where to look; nothing is read yet.

        Args:
            mirrors: a folder of git repositories, bare or not, found by the repository's name; or of plain folders
                named as in `Task.directory`, which are taken as they are. None: repositories are cloned.
            from_images: take the files from the environment images that were built. There they are as a candidate
                finds them: with stand-ins, and with what a recipe changed.
            cache: of texts of commits and images; None: each is read anew.
            progress: receives a line for what takes long.
        """
        self._mirrors = mirrors
        self._from_images = from_images
        self._cache = cache
        self._progress = progress
        self._texts: OrderedDict[tuple[str, str | None], RepositoryText] = OrderedDict()
        self._failures: dict[tuple[str, str | None], str] = {}
        self._images: list[EnvironmentImage] | str | None = None
        self._image_lock = threading.Lock()
        self._lock = threading.Lock()

    def key_of(self, task: Task) -> tuple[str, str | None]:
        """Return what tells the text of a task's repository from others.

        Raises:
            RepositoryError: no image has the task's repository, or no engine answers.
        """
        return task.github, (self._image_of(task) if self._from_images else task.commit)

    def text_of(self, task: Task) -> RepositoryText:
        """Return the text of a task's repository at its pinned commit.

        Raises:
            RepositoryError: it cannot be had; the message says what to do. Asking again tells the same.
        """
        key = self.key_of(task)
        with self._lock:
            if key in self._failures:
                raise RepositoryError(self._failures[key])
            if key not in self._texts:
                try:
                    self._texts[key] = self._find(task)
                except (RepositoryError, BuildError, SandboxError, RecipeError) as error:
                    self._failures[key] = str(error)
                    raise RepositoryError(str(error)) from error
                while len(self._texts) > _REMEMBERED:
                    self._texts.popitem(last=False)
            self._texts.move_to_end(key)
            return self._texts[key]

    def _find(self, task: Task) -> RepositoryText:
        if self._from_images:
            return self._of_image(task)
        if folder := _package_folder(task):
            return RepositoryText(read_folder(folder))
        if folder := self._plain_folder(task):
            self._progress(f"{task.repository}: {folder} is no git repository, and is taken as it is")
            return RepositoryText(read_folder(folder))
        return self._of_commit(task)

    def _plain_folder(self, task: Task) -> Path | None:
        if self._mirrors is None or find_mirrors(self._mirrors, task.repository):
            return None
        places = (self._mirrors / name for name in (task.directory, task.repository))
        return next((place for place in places if place.is_dir()), None)

    def _of_commit(self, task: Task) -> RepositoryText:
        if task.commit is None:
            raise RepositoryError(
                f"{task.repository}: no commit is known; give --repositories DIR with a folder {task.directory}"
            )
        source = find_source(Checkout(task.repository, task.github, task.commit, task.directory), self._mirrors)

        def read() -> tuple[TextFile, ...]:
            log_file = cache_folder() / "logs" / f"text-{task.repository}.log"
            with BuildLog(log_file, self._progress, task.repository) as log, checked_out(source, log) as files:
                return read_folder(files)

        return self._cached(read, "commit", task.github, source.digest)

    def _of_image(self, task: Task) -> RepositoryText:
        image, folder = self._image_of(task), f"{WORKSPACE}/{task.directory}"
        return self._cached(lambda: _in_image(image, folder), "image", image, folder)

    def _image_of(self, task: Task) -> str:
        """Return the digest of the image whose files are shown: tasks of one repository may have different ones."""
        from ml_bench_metric.environments.images import serving_images

        with self._image_lock:
            if self._images is None:
                self._images = _list_images()
        if isinstance(self._images, str):
            raise RepositoryError(self._images)
        serving = serving_images(self._images, task.repository, task.task_id)
        if not serving:
            raise RepositoryError(
                f"no image with {task.repository} was built: `ml-bench images build {task.repository}` does it, or "
                "leave out --from-images"
            )
        return serving[0].digest

    def _cached(self, read: Callable[[], tuple[TextFile, ...]], *parts: str) -> RepositoryText:
        data = self._cache.get(RULES_VERSION, *parts) if self._cache else None
        if data is not None:
            try:
                return unpacked(data)
            except (ValueError, TypeError, zlib.error):
                pass  # written by another version
        text = RepositoryText(read())
        if self._cache:
            self._cache.put(text.packed(), RULES_VERSION, *parts)
        return text


def _package_folder(task: Task) -> Path | None:
    """Return the folder of a repository that comes in a Python package, as the sample's do; None for others."""
    if task.commit is not None:
        return None
    try:
        recipe = recipe_for(task.repository, task.task_id)
    except EnvironmentUnknown:
        return None
    folder = recipe.package_folder() / task.directory if recipe.package else None
    return folder if folder and folder.is_dir() else None


def _list_images() -> list[EnvironmentImage] | str:
    """Return the engine's images, or what is wrong with it, so that it is not asked once for each task."""
    from ml_bench_metric.environments.engine_calls import told
    from ml_bench_metric.environments.images import list_images
    from ml_bench_metric.sandbox.docker_engine import connect

    try:
        with told("listing the images"):
            return list_images(connect())
    except SandboxError as error:
        return str(error)


def _in_image(image: str, folder: str) -> tuple[TextFile, ...]:
    """Return the text files of an image's folder. Nothing of the image is run."""
    from ml_bench_metric.environments.engine_calls import patient, told
    from ml_bench_metric.sandbox.docker_engine import OWNER_LABEL, connect, owner, remove_container

    client = connect()
    with patient(client), told(f"taking {folder} from image {image[:19]}"), tempfile.TemporaryFile() as buffer:
        # Created, not started: its files can be read all the same.
        made = client.api.create_container(image, command=["true"], labels={OWNER_LABEL: owner()})["Id"]
        try:
            for chunk in client.api.get_archive(made, folder)[0]:
                buffer.write(chunk)
        finally:
            remove_container(client, made)
        buffer.seek(0)
        return read_tar(buffer)
