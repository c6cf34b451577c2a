"""An engine that has images, and takes and removes names as a real one does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from docker.errors import APIError, ImageNotFound


class FakeAnswer(contextlib.nullcontext[None]):
    """An answer of the engine that is read as it comes."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = content

    def raise_for_status(self) -> None:
        pass

    def iter_content(self, size: int) -> Iterator[bytes]:
        for start in range(0, len(self._content), size):
            yield self._content[start : start + size]


class FakeImages:
    """Stands for a `DockerClient`: images with layers, and the containers that use them."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.used: dict[str, str] = {}
        """Digest of an image -> name of a container."""
        self.builders: list[str] = []
        """Owners of the containers in which images are made."""
        self.removed: list[str] = []
        self.api = self
        self.timeout = 60
        self.base_url, self.api_version = "http://elsewhere", "1.41"
        self.archive = b""
        """What it answers when images are asked for."""
        self.asked: list[str] = []
        """Names of the images that were asked for."""
        self.load: Callable[[], list[dict[str, str]]] = list
        """What loading an archive does, and the events that it answers."""
        self.loaded = b""

    def add(
        self, *names: str, layers: str, labels: Mapping[str, str] | None = None, sizes: Mapping[str, int] | None = None
    ) -> str:
        """Add an image, and return its digest.

        Args:
            names: that it has.
            layers: a letter for each, the lowest first.
            labels: that it has.
            sizes: of the layers, in bytes; 10 by default.
        """
        digest = f"sha256:{len(self.stored):064x}"
        self.stored[digest] = {
            "Id": digest,
            "RepoTags": list(names),
            "Config": {"Labels": dict(labels or {})},
            "RootFS": {"Layers": list(layers)},
            "Size": sum((sizes or {}).get(layer, 10) for layer in layers),
            "sizes": [(sizes or {}).get(layer, 10) for layer in layers],
        }
        return digest

    def images(self, all: bool) -> list[dict[str, Any]]:
        return list(self.stored.values())

    def inspect_image(self, name: str) -> dict[str, Any]:
        for digest, image in self.stored.items():
            if name == digest or name in image["RepoTags"]:
                return image
        raise ImageNotFound(f"no such image: {name}", response=SimpleNamespace(status_code=404))  # type: ignore[arg-type]

    def history(self, name: str) -> list[dict[str, int]]:
        """The newest step first; one more than there are layers, because steps that set a variable make none."""
        sizes = self.inspect_image(name)["sizes"]
        return [{"Size": 0}, *({"Size": size} for size in reversed(sizes))]

    def containers(self, all: bool = False, filters: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        if filters:
            return [{"Id": owner, "Labels": {filters["label"]: owner}} for owner in ["", *self.builders]]
        return [{"ImageID": digest, "Names": [f"/{name}"]} for digest, name in self.used.items()]

    def tag(self, name: str, repository: str, tag: str) -> None:
        whole, target = f"{repository}:{tag}", self.inspect_image(name)
        for image in self.stored.values():
            if whole in image["RepoTags"]:
                image["RepoTags"].remove(whole)
        target["RepoTags"].append(whole)

    def get(self, url: str, params: Mapping[str, list[str]], stream: bool, timeout: float) -> FakeAnswer:
        assert url == "http://elsewhere/v1.41/images/get"
        self.asked = params["names"]
        return FakeAnswer(self.archive)

    def load_image(self, data: Iterable[bytes], quiet: bool) -> list[dict[str, str]]:
        self.loaded = b"".join(data)
        return self.load()

    def remove_image(self, name: str) -> None:
        image = self.inspect_image(name)
        if image["Id"] in self.used and len(image["RepoTags"]) < 2:
            raise APIError("conflict", SimpleNamespace(status_code=409), "a container uses it")  # type: ignore[arg-type]
        self.removed.append(name)
        if name in image["RepoTags"]:
            image["RepoTags"].remove(name)
        if not image["RepoTags"]:
            del self.stored[image["Id"]]
