"""Makes stand-ins for the weights of SAM, GroundingDINO and BERT, and for pictures. Runs in the repository's folder.

Models have the real size and no trained weights: GroundingDINO's checkpoint may lack weights, so it is empty; SAM's
must have them all, so it holds zeros in their shapes.
"""

from __future__ import annotations

import json
import shutil
import string
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from segment_anything import sam_model_registry

SAM, DINO = Path("segment_anything"), Path("GroundingDINO")

PICTURES = {
    Path(): (
        "image/0.jpg",
        "image/cats.jpg",
        "image/dogs.jpg",
        "image/image.jpg",
        "image/tree.jpg",
        "pathtoimage.jpg",
        "picture/my_cat_mi.jpg",
        "picture/my_dog.jpg",
    ),
    SAM: (
        "pic/picture1.jpg",
        "pic2/picture2.jpg",
        "pic3/pic3.jpg",
        "picture/my_cat.jpg",
        "picture/my_cat_mi.jpg",
        "picture/my_pic3.jpg",
    ),
    DINO: (
        ".asset/animals.jpg",
        ".asset/cat.jpg",
        ".asset/dog.jpg",
        ".asset/human.jpg",
        ".asset/moon.jpg",
        ".asset/moon1.jpg",
    ),
}

BERT_WIDTH, BERT_WORDS = 768, 30522
"""Sizes of the real model."""


def picture(file: Path) -> None:
    """Draw a house under a sky."""
    file.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", (320, 240), "skyblue")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 180, 320, 240), fill="seagreen")
    draw.rectangle((100, 110, 220, 200), fill="sienna")
    draw.polygon([(90, 110), (230, 110), (160, 60)], fill="firebrick")
    image.save(file)


def bert(folder: Path) -> None:
    """Write BERT's folder: its tokenizer knows letters in place of words.

    transformers reads a folder that has a model's name in place of the model on the Hub.
    """
    folder.mkdir()
    words = ["[PAD]", *(f"[unused{number}]" for number in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = string.ascii_lowercase + string.digits + string.punctuation
    words += [*letters, *(f"##{letter}" for letter in letters)]
    words += [f"[unused{number}]" for number in range(99, 99 + BERT_WORDS - len(words))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}), encoding="utf-8")
    # All other fields have bert-base-uncased's values by default.
    config = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": BERT_WORDS}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    # transformers takes a file without any weight of the model for a damaged one.
    torch.save({"bert.embeddings.LayerNorm.weight": torch.ones(BERT_WIDTH)}, folder / "pytorch_model.bin")


def sam(file: Path) -> None:
    """Write zeros for every weight of SAM's largest model; one number stands behind a tensor, so the file is small."""
    with torch.device("meta"):
        weights = sam_model_registry["vit_h"]().state_dict()
    file.parent.mkdir()
    torch.save({name: torch.zeros(()).expand(weight.shape) for name, weight in weights.items()}, file)


def grounding_dino() -> None:
    """Write a checkpoint without weights where either kind of task looks for it, and the configuration."""
    model = DINO / "model"
    model.mkdir()
    shutil.copy(DINO / "groundingdino/config/GroundingDINO_SwinT_OGC.py", model)
    for folder in (Path(), model):
        torch.save({"model": {}}, folder / "groundingdino_swint_ogc.pth")


def main() -> None:
    for folder, names in PICTURES.items():
        for name in names:
            picture(folder / name)
    for folder in (Path(), DINO):
        bert(folder / "bert-base-uncased")
    grounding_dino()
    sam(SAM / "model/sam_vit_h_4b8939.pth")


if __name__ == "__main__":
    main()
