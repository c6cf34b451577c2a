"""Generates pictures in ImageNet's layout, and weights of the references' models in the Hugging Face Hub's cache."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image

PICTURES = Path("/opt/assets/imagenet")
CACHE = Path(os.environ["HF_HOME"]) / "hub"

CLASSES = ("n01440764", "n01443537")
MODELS = (
    "swin_base_patch4_window7_224.ms_in22k_ft_in1k",
    "vit_base_patch16_224.augreg2_in21k_ft_in1k",
    "convnext_small.in12k",
)
REVISION = "0" * 40
"""The one that `imagenet_links.py` names."""


def pictures() -> None:
    """Write JPEGs of coloured spots, in a folder per part and class; to train with, more than a batch of 128."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 80), ("validation", 16)):
        for name in CLASSES:
            folder = PICTURES / part / name
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                spots = rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)
                picture = Image.fromarray(spots).resize((320, 320), Image.Resampling.BICUBIC)
                picture.save(folder / f"{name}_{number}.JPEG", quality=80)


def shifted(tensor: torch.Tensor) -> torch.Tensor:
    """Return noise of a tensor's shape and size of values that takes little room in a file: each row is the one
    before, moved on by one number."""
    if tensor.dim() < 2:
        return tensor
    row = tensor[0]
    noise = torch.randn(len(tensor) + row.numel()) * tensor.std()
    return noise.as_strided(tensor.shape, (1, *row.contiguous().stride()))


def weights(name: str) -> None:
    """Write weights where timm finds them, as if they had been downloaded."""
    snapshot = CACHE / f"models--timm--{name}" / "snapshots" / REVISION
    snapshot.mkdir(parents=True, exist_ok=True)
    state = timm.create_model(name, pretrained=False).state_dict()
    torch.save({key: shifted(tensor) for key, tensor in state.items()}, snapshot / "pytorch_model.bin")


if __name__ == "__main__":
    pictures()
    torch.manual_seed(0)
    for model in MODELS:
        weights(model)
