"""Makes stand-ins for what BLIP-2 downloads and for the pictures that its tasks name. Runs in the repository's folder.

LAVIS loads its checkpoints without asking that every weight is there, so empty ones leave models of the real size with
random weights. The language model is the exception: a small one, whose size LAVIS takes from its configuration.
"""

from __future__ import annotations

import json
import string
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from transformers import OPTConfig, OPTForCausalLM

PICTURES = ("city.jpg", "data/example.jpg", "data/image.jpg", "example.jpg", "image.jpg", "test.jpg")

CHECKPOINTS = ("blip2_finetune_coco.pth", "blip2_pretrained.pth", "blip2_pretrained_opt6.7b.pth")

VISION = "eva_vit_g.pth"

BERT_WIDTH, BERT_WORDS = 768, 30522
"""Sizes of the real model."""

OPT = Path("facebook/opt-6.7b")
"""transformers reads a folder that has a model's name in place of the model on the Hub."""


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
    """Write BERT's folder: its tokenizer knows letters in place of words."""
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
    torch.save({"bert.embeddings.LayerNorm.weight": torch.ones(BERT_WIDTH)}, folder / "pytorch_model.bin")


def opt(folder: Path) -> None:
    """Write a small OPT with a byte-level tokenizer that has no merges: every character is a token."""
    folder.mkdir(parents=True)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *map(chr, range(33, 127)), "Ġ", "Ċ"]
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(tokens)}), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    tokenizer = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>"}
    tokenizer |= {"pad_token": "<pad>", "add_bos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    torch.manual_seed(1)
    config = OPTConfig(
        vocab_size=len(tokens),
        hidden_size=32,
        word_embed_proj_dim=32,
        ffn_dim=32,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    OPTForCausalLM(config).save_pretrained(folder)


def main() -> None:
    for name in PICTURES:
        picture(Path(name))
    bert(Path("bert-base-uncased"))
    opt(OPT)
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    for name in CHECKPOINTS:
        torch.save({"model": {}}, folder / name)
    torch.save({}, folder / VISION)


if __name__ == "__main__":
    main()
