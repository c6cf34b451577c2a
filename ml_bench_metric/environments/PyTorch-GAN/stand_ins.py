"""Generates PyTorch-GAN's data sets and VGG-19: real names, layouts and sizes of a picture, few and random pictures."""

from __future__ import annotations

import os
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torchvision.models import vgg19

DATA = Path("data")
CHECKPOINTS = Path(os.environ["TORCH_HOME"]) / "hub" / "checkpoints"

CELEBA_DIFFERENT = 50
CELEBA_NAMES = 20000
"""Names of pictures in CelebA's folder, many of them for the same file. context_encoder.py keeps the last 4,000 apart;
and some loaders take the list of attributes for a picture when they come to it, which has to stay as rare as with the
real number of names."""
CELEBA_ATTRIBUTES = (
    "5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips Big_Nose Black_Hair Blond_Hair "
    "Blurry Brown_Hair Bushy_Eyebrows Chubby Double_Chin Eyeglasses Goatee Gray_Hair Heavy_Makeup High_Cheekbones Male "
    "Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard Oval_Face Pale_Skin Pointy_Nose Receding_Hairline Rosy_Cheeks "
    "Sideburns Smiling Straight_Hair Wavy_Hair Wearing_Earrings Wearing_Hat Wearing_Lipstick Wearing_Necklace "
    "Wearing_Necktie Young"
)

PAIRS = ("facades", "edges2shoes")
"""Data sets of pictures that show both sides, the one beside the other."""
SIDES = ("monet2photo", "apple2orange")
"""Data sets with a folder for each side."""


def random(name: str) -> np.random.Generator:
    """Return the random numbers of a file; its name is the seed, so that no file depends on the others."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def picture(path: Path, width: int, height: int) -> None:
    """Write a JPEG of coloured spots."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spots = random(str(path)).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    Image.fromarray(spots).resize((width, height), Image.Resampling.BICUBIC).save(path, quality=80)


def celeba() -> None:
    """Write the folder of faces, with the list of attributes that stargan.py reads."""
    folder = DATA / "img_align_celeba"
    names = [f"{number:06d}.jpg" for number in range(1, CELEBA_NAMES + 1)]
    for index, name in enumerate(names):
        if index < CELEBA_DIFFERENT:
            picture(folder / name, 178, 218)
        else:
            os.link(folder / names[index % CELEBA_DIFFERENT], folder / name)
    values = random("attributes").choice((" 1", "-1"), (CELEBA_NAMES, len(CELEBA_ATTRIBUTES.split())))
    lines = [str(CELEBA_NAMES), CELEBA_ATTRIBUTES]
    lines += (f"{name} {' '.join(row)}" for name, row in zip(names, values))
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def pictures() -> None:
    """Write the data sets for translation between two kinds of pictures."""
    for name in PAIRS:
        for part, count in (("train", 32), ("val", 16), ("test", 8)):
            for number in range(1, count + 1):
                picture(DATA / name / part / f"{number}.jpg", 512, 256)
    for name in SIDES:
        for part, count in (("train", 32), ("test", 8)):
            for side in "AB":
                for number in range(1, count + 1):
                    picture(DATA / name / f"{part}{side}" / f"{number}.jpg", 256, 256)


def digits() -> None:
    """Write MNIST and MNIST-M as they are unpacked, from the 1,797 digits of 8 x 8 pixels that scikit-learn ships."""
    shipped = load_digits()
    enlarged = np.kron(shipped.images * (255 / 16), np.ones((3, 3)))
    images = np.pad(enlarged.astype(np.uint8), ((0, 0), (2, 2), (2, 2)))
    labels = shipped.target.astype(np.uint8)
    parts = {"train": slice(0, 1536), "t10k": slice(1536, None)}

    folder = DATA / "mnist" / "MNIST" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        count = len(labels[part])
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + images[part].tobytes())
        header = struct.pack(">II", 0x801, count)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(header + labels[part].tobytes())

    # The same digits in colour; their labels are MNIST's.
    folder = DATA / "mnistm" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    background = random("mnistm").integers(0, 256, (len(images), 1, 1, 3)).astype(np.uint8)
    coloured = images[..., None] ^ background
    content = {b"train": coloured[parts["train"]], b"test": coloured[parts["t10k"]]}
    with (folder / "keras_mnistm.pkl").open("wb") as stream:
        pickle.dump(content, stream)


def vgg() -> None:
    """Write weights of VGG-19 under their real name, where torchvision looks before it downloads them.

    Each tensor is one number, which is stored once for all its elements.
    """
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in vgg19().state_dict().items()}
    # The mean over its inputs is what a layer then gives, so that the numbers stay in bounds.
    weights = {
        name: torch.tensor(1 / shape[1:].numel() if len(shape) > 1 else 0.0).expand(shape)
        for name, shape in shapes.items()
    }
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    torch.save(weights, CHECKPOINTS / "vgg19-dcbb9e9d.pth")


if __name__ == "__main__":
    celeba()
    pictures()
    digits()
    vgg()
