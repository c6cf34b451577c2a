"""Makes stand-ins for muzic's weights and data sets, for the sub-projects that run without CUDA.

Runs in the repository's folder. What the sub-projects have scripts for (SongMASS's data) is made by these; models have
the real classes, as small as these allow, and no trained weights.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, List

import torch

SONGS = {"train": 24, "valid": 4, "test": 2}
SENTENCES, WORDS = 4, 5
"""Of a song, and of a sentence."""

SONGMASS_TRAINING = (
    "fairseq-train data_org/processed --user-dir mass --task xmasked_seq2seq --arch xtransformer "
    "--source-langs lyric,melody --target-langs lyric,melody --langs lyric,melody "
    "--mass_steps lyric-lyric,melody-melody --mt_steps lyric-melody,melody-lyric "
    "--valid-lang-pairs lyric-lyric,melody-melody --criterion label_smoothed_cross_entropy_with_align "
    "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32 --decoder-embed-dim 32 "
    "--encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32 --encoder-attention-heads 2 --decoder-attention-heads 2 "
    "--share-decoder-input-output-embed --optimizer adam --max-tokens 4096 --max-update 1 --seed 1 --cpu "
    "--no-epoch-checkpoints --no-last-checkpoints --no-progress-bar --save-dir stand-in"
)

DEEPRAPPER = {"n_embd": 32, "n_layer": 1, "n_head": 2}
"""What is smaller than in the repository's own config/model_config_small.json."""


@contextlib.contextmanager
def inside(folder: str) -> Iterator[None]:
    """Work in a folder as a script of it would: as the current folder, first on the path of modules."""
    before = Path.cwd()
    os.chdir(folder)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path.pop(0)
        os.chdir(before)


def run(command: List[str]) -> None:
    """Run a command; its output is shown where it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode:
        sys.exit("{} ended with status {}\n{}".format(" ".join(command), done.returncode, done.stdout))


def songmass() -> None:
    """Write songs in the form of generate_lmd_dataset.py, make the binary data of them, and train for one step."""
    words = [line.split(" ")[0] for line in Path("data/dict.lyric.txt").read_text(encoding="utf-8").splitlines()[3:200]]
    draw = random.Random(1)
    folder = Path("data_org/para")
    folder.mkdir(parents=True)
    for split, count in SONGS.items():
        lyrics, melodies = [], []
        for _ in range(count):
            lyric: List[str] = []
            melody: List[str] = []
            for _ in range(SENTENCES):
                for _ in range(WORDS):
                    lyric += [draw.choice(words), "[align]"]
                    # A note is a pitch, and a token for its duration.
                    melody += [str(draw.randint(55, 72)), str(draw.randint(130, 136)), "[align]"]
                lyric.append("[sep]")
                melody.append("[sep]")
            lyrics.append(" ".join(lyric) + "\n")
            melodies.append(" ".join(melody) + "\n")
        (folder / f"{split}.lyric").write_text("".join(lyrics), encoding="utf-8")
        (folder / f"{split}.melody").write_text("".join(melodies), encoding="utf-8")
    run(["bash", "generate_data.sh", "data_org"])
    run(["bash", "preprocess.sh", "data_org", "mass"])
    run(SONGMASS_TRAINING.split(" "))
    shutil.move("stand-in/checkpoint_best.pt", "checkpoint_best.pt")
    shutil.rmtree("stand-in")


def deeprapper() -> None:
    """Save a small GPT-2 of DeepRapper's own class."""
    from module import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = json.loads(Path("config/model_config_small.json").read_text(encoding="utf-8"))
    folder = Path("model/deeprapper-model")
    folder.mkdir(parents=True)
    GPT2LMHeadModel(GPT2Config(**{**config, **DEEPRAPPER})).save_pretrained(str(folder))


def main() -> None:
    for folder, make in (("songmass", songmass), ("deeprapper", deeprapper)):
        with inside(folder):
            make()


if __name__ == "__main__":
    main()
