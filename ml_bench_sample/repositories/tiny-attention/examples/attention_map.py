"""Show where a sentence's words look: one row per word, darker is more."""

import argparse
import sys
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model.attention.DotAttention import DotAttention  # noqa: E402
from model.positions import causal_mask, sinusoids  # noqa: E402

SHADES = " .:-=+*#%@"


def embed(word, d_model):
    """A random vector that depends on the word alone."""
    return np.random.default_rng(zlib.crc32(word.lower().encode())).normal(size=d_model)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentence", required=True)
    parser.add_argument("--d_model", type=int, default=16)
    parser.add_argument("--causal", action="store_true", help="hide what follows a word")
    parser.add_argument("--position_scale", type=float, default=1.0, help="weight of the positions in the input")
    args = parser.parse_args()

    words = args.sentence.split()
    x = np.stack([embed(word, args.d_model) for word in words])
    x = (x + args.position_scale * sinusoids(len(words), args.d_model))[None]
    layer = DotAttention(args.d_model, args.d_model, args.d_model, h=1)
    layer(x, x, x, causal_mask(len(words)) if args.causal else None)
    for word, row in zip(words, layer.map[0, 0]):
        print(f"{word:>14s} |" + "".join(SHADES[min(9, int(10 * weight))] for weight in row) + "|")


if __name__ == "__main__":
    main()
