"""Labelled texts: one per line, label and text separated by a tab."""

from pathlib import Path

import numpy as np


def read(path):
    """Return (labels, texts).

    Exits with a message that names the line where a line has no tab.
    """
    labels, texts = [], []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        label, tab, text = line.partition("\t")
        if not tab:
            raise SystemExit(f"{path}:{number}: no tab between label and text")
        labels.append(label)
        texts.append(text)
    return labels, texts


def write(path, labels, texts):
    """Write what `read` reads."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{label}\t{text}\n" for label, text in zip(labels, texts)), encoding="utf-8")


def split(labels, texts, ratio, seed=0):
    """Shuffle and cut -> ((labels, texts) of the first part, of the rest); `ratio` is the share of the first part."""
    order = np.random.default_rng(seed).permutation(len(labels))
    cut = round(ratio * len(order))
    return tuple(([labels[i] for i in part], [texts[i] for i in part]) for part in (order[:cut], order[cut:]))
