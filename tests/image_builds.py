"""Images built on the real engine from the recipes of a test, and removed behind it."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ml_bench_metric.environments.build import BuiltImage, Options, build
from ml_bench_metric.environments.build_log import Progress
from ml_bench_metric.environments.images import (
    BUILDER,
    LAYER,
    RECIPE_NAME,
    AssetsWanted,
    EnvironmentImage,
    list_images,
    serving_images,
)
from ml_bench_metric.environments.layers import PACKAGES
from ml_bench_metric.environments.recipe import Device, Recipe
from tests.recipe_builders import RecipeFolder

if TYPE_CHECKING:
    from docker import DockerClient


class ImageBuilds:
    """Builds images of the recipes of a folder, whose names no other process uses."""

    def __init__(self, folder: RecipeFolder, client: DockerClient) -> None:
        self.folder = folder
        self.client = client
        self.lines: list[str] = []
        """The progress lines."""
        self.progress: Progress = self.lines.append
        self.name = f"test-environment-{os.getpid()}"
        """Name of the recipe, and the beginning of the names of further recipes and of package sets."""
        self.repository = f"some-repository-{os.getpid()}"
        self.file = folder.repository(self.repository)
        self.write()

    def write(
        self, script: str = "", files: dict[str, str] | None = None, *, name: str = "", **facts: object
    ) -> Recipe:
        """Write a recipe, and return it. It is called as all others, with `name` behind."""
        called, layer = self._layer(script, files, name, facts)
        return self.folder.recipe(called, layer, **facts)

    def write_set(
        self, script: str = "", files: dict[str, str] | None = None, *, name: str = "-set", **facts: object
    ) -> str:
        """Write a package set, and return its name."""
        called, layer = self._layer(script, files, name, facts)
        return self.folder.package_set(called, layer, **facts).name

    def _layer(
        self, script: str, files: dict[str, str] | None, name: str, facts: dict[str, object]
    ) -> tuple[str, dict[str, str]]:
        called = self.name + name
        facts.setdefault("scripts", ["script.py"])
        # What the script says of its name makes the layer's digest its own.
        return called, {"script.py": f"# {called}\n{script}", **(files or {})}

    def build(self, *names: str, jobs: int = 1, **options: object) -> list[BuiltImage]:
        """Build images, by default of the one recipe."""
        chosen = Options(**options)  # type: ignore[arg-type]
        return build(names or [self.name], self.client, chosen, jobs=jobs, progress=self.progress)

    def build_one(self, **options: object) -> BuiltImage:
        """Build the image of the one recipe."""
        (image,) = self.build(**options)  # type: ignore[arg-type]
        return image

    def steps(self, name: str) -> list[str]:
        """Return the progress lines that say that a step of such a name begins."""
        return [line for line in self.lines if line.endswith(f": {name} …")]

    def serving(
        self, task_id: str = "", assets: AssetsWanted = "auto", device: Device = "cpu"
    ) -> list[EnvironmentImage]:
        """Return the images that an evaluation would take for a task, the first of the repository's by default."""
        task_id = task_id or f"{self.repository}/1"
        repository = task_id.partition("/")[0]
        return serving_images(list_images(self.client), repository, task_id, assets=assets, device=device)

    def labels(self, name: str) -> dict[str, str]:
        """Return an image's labels."""
        labels: dict[str, str] = self.client.api.inspect_image(name)["Config"]["Labels"]
        return labels

    def output(self, image: str, *command: str, user: str = "1000:1000") -> str:
        """Return what a command prints in a container without network."""
        container = self.client.containers.run(image, list(command), user=user, network_mode="none", detach=True)
        try:
            # Only of a container that has ended the engine is known to have written down all.
            status = container.wait()["StatusCode"]
            text: str = container.logs().decode().strip()
        finally:
            container.remove(force=True)
        assert status == 0, text
        return text

    def builders(self, process: int | None = None) -> list[str]:
        """Return the containers in which a process, this one by default, makes an image."""
        found = self.client.api.containers(all=True, filters={"label": BUILDER})
        labels = [(container["Id"], container["Labels"][BUILDER]) for container in found]
        return [
            identity for identity, label in labels if label and json.loads(label)["pid"] == (process or os.getpid())
        ]

    def remove_images(self) -> None:
        """Remove every image that was made, the youngest first, because others stand on the older ones."""
        from docker.errors import ImageNotFound

        records = self.client.api.images(filters={"label": LAYER})
        for record in sorted(records, key=lambda record: -record["Created"]):
            names = record["RepoTags"] or [record["Id"]]
            packages = any(name.startswith(f"{PACKAGES}:{self.name}") for name in names)
            for name in names if packages or record["Labels"].get(RECIPE_NAME, "").startswith(self.name) else ():
                with contextlib.suppress(ImageNotFound):
                    self.client.images.remove(name, force=True)


def make_wheel(folder: Path, name: str, version: str = "1.0", text: str = "") -> str:
    """Write a wheel that has one module, and return how a lock names it, with the hash of the wheel."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        # With one time for all files, the same contents give the same hash.
        for file, content in (
            (f"{name}.py", text),
            (f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
            (f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            (f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"),
        ):
            wheel.writestr(zipfile.ZipInfo(file), content)
    return f"{name}=={version} --hash=sha256:{sha256(path.read_bytes()).hexdigest()}"
