"""Generates learning3d's ModelNet40, and random weights in place of those that a checkout lacks.

The repository has its weights in git; mirrors that leave out large files have not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import torch

# As the package `learning3d`, which uses relative imports.
sys.path.insert(0, str(Path.cwd().parent))

DATA = Path("data/modelnet40_ply_hdf5_2048")
PRETRAINED = Path("pretrained")

SHAPES = (
    *("airplane", "bathtub", "bed", "bench", "bookshelf", "bottle", "bowl", "car", "chair", "cone", "cup"),
    *("curtain", "desk", "door", "dresser", "flower_pot", "glass_box", "guitar", "keyboard", "lamp", "laptop"),
    *("mantel", "monitor", "night_stand", "person", "piano", "plant", "radio", "range_hood", "sink", "sofa"),
    *("stairs", "stool", "table", "tent", "toilet", "tv_stand", "vase", "wardrobe", "xbox"),
)
POINTS = 2048


def clouds(part: str, count: int, seed: int) -> None:
    """Write point clouds in a file of the data set: rough balls, with normals."""
    rng = np.random.default_rng(seed)
    normals = rng.normal(size=(count, POINTS, 3))
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    points = normals * rng.uniform(0.2, 1, (count, POINTS, 1))
    with h5py.File(DATA / f"ply_data_{part}0.h5", "w") as file:
        file["data"] = points.astype(np.float32)
        file["normal"] = normals.astype(np.float32)
        file["label"] = (np.arange(count) % len(SHAPES)).astype(np.uint8)[:, None]


def shifted(tensor: torch.Tensor) -> torch.Tensor:
    """Return noise of a tensor's shape and size of values that takes little room in a file: each row is the one
    before, moved on by one number."""
    if tensor.dim() < 2:
        return tensor
    row = tensor[0]
    noise = torch.randn(len(tensor) + row.numel()) * tensor.std()
    return noise.as_strided(tensor.shape, (1, *row.contiguous().stride()))


def weights(file: str, make: Callable[[], torch.nn.Module], key: str | None = None) -> None:
    """Write weights of a model that the checkout lacks.

    Args:
        file: where.
        make: makes the model.
        key: the weights' key in the file's content; None where they are all of it.
    """
    path = PRETRAINED / file
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {name: shifted(tensor) for name, tensor in make().state_dict().items()}
    torch.save({key: state} if key else state, path)


def pretrained() -> None:
    """Write the weights that the examples load by default, for models as the examples make them by default."""
    from learning3d import models

    weights("exp_dcp/models/best_model.t7", lambda: models.DCP(feature_model=models.DGCNN(emb_dims=512), cycle=True))
    weights("exp_deepgmr/models/best_model.pth", lambda: models.DeepGMR(use_rri=True, nearest_neighbors=20))
    weights("exp_ipcrnet/models/best_model.t7", lambda: models.iPCRNet(feature_model=models.PointNet(emb_dims=1024)))
    weights("exp_masknet/models/best_model.t7", models.MaskNet)
    weights("exp_masknet2/models/best_model_0.7.t7", models.MaskNet2)
    weights("exp_pcn/models/best_model.t7", lambda: models.PCN(emb_dims=1024))
    weights("exp_prnet/models/best_model.t7", lambda: models.PRNet(emb_dims=512, num_iters=3))
    for name in ("clean", "noisy", "partial"):
        file = f"exp_rpmnet/models/{name}-trained.pth"
        weights(file, lambda: models.RPMNet(feature_model=models.PPFNet()), key="state_dict")


if __name__ == "__main__":
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / "shape_names.txt").write_text("\n".join(SHAPES) + "\n", encoding="utf-8")
    clouds("train", 80, seed=1)
    clouds("test", 40, seed=2)
    torch.manual_seed(0)
    pretrained()
