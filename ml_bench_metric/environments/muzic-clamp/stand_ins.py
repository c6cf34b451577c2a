"""Makes stand-ins for the weights of CLaMP and of its text model, and for its scores. Runs in muzic's folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from transformers import BertConfig, RobertaConfig, RobertaModel

CLAMP = "sander-wood/clamp-small-512"
PATCHES = 512
TEXT_MODEL = "distilroberta-base"
WIDTH = 768
"""Of both models: the repository ships features of this size."""
SMALL = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 12, "intermediate_size": 8}


def text_model() -> None:
    """Write a RoBERTa with a byte-level tokenizer that has no merges: every character is a token."""
    folder = Path(TEXT_MODEL)
    folder.mkdir()
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *map(chr, range(33, 127)), "Ġ", "Ċ"]
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(tokens)}), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    config = RobertaConfig(vocab_size=len(tokens), max_position_embeddings=514, type_vocab_size=1, **SMALL)
    config.save_pretrained(str(folder))
    torch.save(hollow(RobertaModel(config).state_dict()), folder / "pytorch_model.bin")


def clamp() -> None:
    """Write a model of CLaMP's own class, which reads the text model."""
    sys.path.insert(0, str(Path.cwd()))
    from utils import CLaMP

    folder = Path(CLAMP)
    folder.mkdir(parents=True)
    config = BertConfig(vocab_size=1, max_position_embeddings=PATCHES, max_length=PATCHES, **SMALL)
    config.save_pretrained(str(folder))
    torch.save(hollow(CLaMP(config).state_dict()), folder / "pytorch_model.bin")


def scores() -> None:
    """Write empty scores by the names of which the repository ships features: what is in them is not looked at then."""
    features = Path("inference/cache/music_key_cache_512.pth")
    cached = torch.load(features, map_location="cpu")
    # They are shipped as a GPU's, which torch does not load without one.
    torch.save({**cached, "features": cached["features"].clone()}, features)
    Path("inference/music_keys").mkdir(exist_ok=True)
    for name in cached["filenames"]:
        Path(name).touch()


def hollow(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return zeros in the shapes of weights; a file of them is small, because each has one number behind it."""
    return {
        name: torch.zeros((), dtype=weight.dtype).expand(weight.shape) if weight.is_floating_point() else weight
        for name, weight in weights.items()
    }


def main() -> None:
    os.chdir("clamp")
    text_model()
    clamp()
    scores()


if __name__ == "__main__":
    main()
