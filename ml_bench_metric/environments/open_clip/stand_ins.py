"""Makes stand-ins for what the references of OpenCLIP read: weights, CIFAR-100 and pictures of a cat.

Runs in the repository's folder. A model's sizes are those of its name, and cannot be made small. So its file has one
small block of noise, of which every tensor is a view; it takes half a megabyte and loads into a model of any size.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import pickle
import site
from pathlib import Path
from unittest import mock

import numpy as np
import open_clip
import torch
from PIL import Image, ImageDraw
from torchvision.datasets import CIFAR100

FROM_HUB = (
    ("ViT-B-16", "laion2b_s34b_b88k"),
    ("ViT-B-32", "commonpool_s_laion_s13m_b4k"),
    ("ViT-B-32", "commonpool_s_text_s13m_b4k"),
    ("ViT-g-14", "laion2b_s34b_b88k"),
    ("convnext_base", "laion400m_s13b_b51k"),
    ("convnext_large_d", "laion2b_s26b_b102k_augreg"),
    ("convnext_xxlarge", "laion2b_s34b_b82k_augreg_rewind"),
    ("coca_ViT-B-32", "mscoco_finetuned_laion2b_s13b_b90k"),
    ("EVA02-L-14", "merged2b_s4b_b131k"),
)
"""Models and tags of weights on the Hugging Face Hub."""

FROM_ADDRESS = (("ViT-B-32-quickgelu", "openai"), ("RN101", "yfcc15m"))
"""Those of weights that have an address, which holds their SHA-256 or its beginning."""

CACHE = Path.home() / ".cache"
SNAPSHOT = "snapshots/" + "0" * 40
"""The snapshot that `hub_cache.py` names."""

PICTURES = ("image/cat.png", "usr/image/cat.jpg", "usr/image/cat.png", "cat.jpg", "cat.png", "image.jpg")

HOOK = '''"""Lets stand-ins pass where a module compares a file with its published checksum."""

import importlib.machinery
import sys

PUBLISHED = {published!r}
"""Checksum of a stand-in -> the published one of the real file."""


def torchvision(module):
    real = module.calculate_md5

    def calculate_md5(*arguments, **named):
        digest = real(*arguments, **named)
        return PUBLISHED.get(digest, digest)

    module.calculate_md5 = calculate_md5


def open_clip(module):
    real = module.hashlib.sha256

    class Hashlib:
        @staticmethod
        def sha256(data):
            digest = real(data).hexdigest()
            return type("Hash", (), {{"hexdigest": lambda self: PUBLISHED.get(digest, digest)}})()

    module.hashlib = Hashlib


CHANGES = {{"torchvision.datasets.utils": torchvision, "open_clip.pretrained": open_clip}}


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in CHANGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                CHANGES[name](module)

            spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder)
'''
"""The program that Python runs at every start, so that a checksum of a stand-in is told as the published one."""


def main() -> None:
    """Write the weights and CIFAR-100 into the caches, the pictures into the repository, and the hook."""
    torch.manual_seed(0)
    noise = 0.02 * torch.randn(1 << 17)
    made: dict[str, Path] = {}
    for model, tag in FROM_HUB:
        repository = open_clip.get_pretrained_cfg(model, tag)["hf_hub"].rstrip("/").replace("/", "--")
        folder = CACHE / f"huggingface/hub/models--{repository}" / SNAPSHOT
        folder.mkdir(parents=True)
        file = folder / "open_clip_pytorch_model.bin"
        if model in made:
            os.link(made[model], file)
        else:
            torch.save(state_of(model, noise), file)
            made[model] = file
    published = {}
    (CACHE / "clip").mkdir()
    for model, tag in FROM_ADDRESS:
        address = open_clip.get_pretrained_url(model, tag)
        file = CACHE / "clip" / address.rsplit("/", 1)[1]
        torch.save(state_of(model, noise), file)
        # As the repository reads an address: OpenAI's have the checksum as a folder, its own at the name's end.
        wanted = address.split("/")[-2] if tag == "openai" else file.stem.rsplit("-", 1)[1]
        published[hashlib.sha256(file.read_bytes()).hexdigest()] = wanted
    published.update(make_cifar100(CACHE / CIFAR100.base_folder))
    user_site = Path(site.getusersitepackages())
    user_site.mkdir(parents=True)
    (user_site / "usercustomize.py").write_text(HOOK.format(published=published), encoding="utf-8")
    for name in PICTURES:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        cat().save(name)


def state_of(name: str, noise: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return weights of a model, by name, all but the smallest as views of the noise."""
    # On the device "meta" a model has shapes and no contents. The layers' rates of dropout are numbers even there.
    with torch.device("meta"), mock.patch("torch.linspace", functools.partial(torch.linspace, device="cpu")):
        model = open_clip.create_model(name, device="meta")
    return {key: stand_in(key, value, noise) for key, value in model.state_dict().items()}


def stand_in(key: str, value: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return a tensor of a weight's shape: what leaves a signal as it is for scales and offsets, noise for the rest."""
    if key == "logit_scale":
        return torch.tensor(math.log(1 / 0.07))
    if value.ndim <= 1 or not value.is_floating_point():
        one = key.endswith((".weight", "running_var", "gamma"))
        return torch.full((), float(one)).to(value.dtype).expand(value.shape)
    return noise.as_strided(value.shape, (1,) * value.ndim)


def make_cifar100(folder: Path) -> dict[str, str]:
    """Write a few noisy pictures as CIFAR-100, and return the MD5 of each file -> the published one."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    published = {}
    for name, digest in (*CIFAR100.train_list, *CIFAR100.test_list):
        content = {
            "data": generator.integers(256, size=(100, 3 * 32 * 32), dtype=np.uint8),
            "fine_labels": list(range(100)),
            "coarse_labels": [label // 5 for label in range(100)],
            "filenames": [f"{name}_{label:03d}.png" for label in range(100)],
        }
        published[write(folder / name, content)] = digest
    names = {
        "fine_label_names": [f"thing_{label:02d}" for label in range(100)],
        "coarse_label_names": [f"kind_{label:02d}" for label in range(20)],
    }
    published[write(folder / CIFAR100.meta["filename"], names)] = CIFAR100.meta["md5"]
    return published


def write(file: Path, content: object) -> str:
    """Pickle something into a file, and return the file's MD5."""
    data = pickle.dumps(content)
    file.write_bytes(data)
    return hashlib.md5(data).hexdigest()


def cat() -> Image.Image:
    """Return a drawing of a cat's head."""
    image = Image.new("RGB", (320, 240), "lightskyblue")
    draw = ImageDraw.Draw(image)
    for left in (90, 180):
        draw.polygon([(left, 110), (left + 15, 40), (left + 50, 90)], fill="grey")
        draw.ellipse([left + 15, 115, left + 35, 135], fill="gold", outline="black")
    draw.ellipse([80, 70, 240, 210], outline="dimgrey", width=4)
    draw.polygon([(150, 150), (170, 150), (160, 162)], fill="pink")
    for slope in (-10, 0, 10):
        draw.line([(30, 160 + slope), (290, 160 - slope)], fill="white", width=2)
    return image


if __name__ == "__main__":
    main()
