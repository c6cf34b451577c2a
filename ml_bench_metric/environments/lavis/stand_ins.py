"""Makes stand-ins for what LAVIS downloads and for the pictures that the tasks name. Runs in the repository's folder.

LAVIS loads its checkpoints without asking that every weight is there, so a checkpoint without weights leaves a model of
the real size with random ones: the code path is the real one, the answers mean nothing. The tokenizer's vocabulary has
the real size and special tokens, and letters in place of words.
"""

from __future__ import annotations

import json
import string
from pathlib import Path

import torch
from PIL import Image, ImageDraw

PICTURES = [
    "city.jpg",
    "data/example.jpg",
    "data/image.jpg",
    "data/wait_for_check/image.jpg",
    "example.jpg",
    "image.jpg",
    "image/example.jpg",
    "my.jpg",
    "my_city.jpg",
    "picture.jpg",
    "self.jpg",
    "test.jpg",
    "your_image.jpg",
]

FINE_TUNED = [
    "albef_nlvr_lavis.pt",
    "albef_snli_ve_lavis.pt",
    "albef_vqav2_lavis.pt",
    "blip_coco_caption_base.pth",
    "model_base_nlvr.pth",
    "model_base_retrieval_coco.pth",
    "model_base_vqa_capfilt_large.pth",
]
"""Checkpoints, by the names that LAVIS gives them in torch's folder."""

PRETRAINED = {"ALBEF.pth": "visual_encoder.pos_embed", "deit_base_patch16_224-b5f2ef4d.pth": "pos_embed"}
"""Checkpoints in which LAVIS looks for one weight itself, to resize it: the position embedding."""

WIDTH, PATCHES, BERT_WORDS = 768, (224 // 16) ** 2, 30522
"""Sizes of the real models; patches are those of a picture of 224 x 224 pixels."""


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
    """Write BERT's folder: transformers reads a folder that has a model's name in place of the model on the Hub."""
    folder.mkdir(exist_ok=True)
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
    torch.save({"bert.embeddings.LayerNorm.weight": torch.ones(WIDTH)}, folder / "pytorch_model.bin")


def main() -> None:
    for name in PICTURES:
        picture(Path(name))
    bert(Path("bert-base-uncased"))
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FINE_TUNED:
        torch.save({"model": {}}, folder / name)
    for name, weight in PRETRAINED.items():
        torch.save({"model": {weight: torch.zeros(1, 1 + PATCHES, WIDTH)}}, folder / name)


if __name__ == "__main__":
    main()
