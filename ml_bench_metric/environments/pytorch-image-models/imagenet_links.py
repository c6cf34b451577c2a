"""Lays the way from where the references look for pictures and weights to where a candidate may write.

Pictures are in folders of the root folder. Of weights, the cache of the Hugging Face Hub has to know the revision.
"""

import os
from pathlib import Path

ASSETS = Path("/opt/assets")
MODELS = (
    "swin_base_patch4_window7_224.ms_in22k_ft_in1k",
    "vit_base_patch16_224.augreg2_in21k_ft_in1k",
    "convnext_small.in12k",
)
REVISION = "0" * 40
"""Any: nothing asks the Hub which one is the latest."""

Path("/imagenet").symlink_to(ASSETS / "imagenet")
Path("/folder/to").mkdir(parents=True)
Path("/folder/to/images").symlink_to(ASSETS / "imagenet" / "validation")

for model in MODELS:
    file = ASSETS / "huggingface" / "hub" / f"models--timm--{model}" / "refs" / "main"
    file.parent.mkdir(parents=True)
    file.write_text(REVISION)
    for path in (file, *file.parents[:4]):
        os.chown(path, 1000, 1000)
