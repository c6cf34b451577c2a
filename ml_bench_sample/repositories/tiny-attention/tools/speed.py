"""Time the attention layers over growing numbers of tokens."""

import argparse
import csv
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model.attention.DotAttention import DotAttention  # noqa: E402
from model.attention.LinearAttention import LinearAttention  # noqa: E402


def seconds(layer, inputs, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        layer(*inputs)
    return (time.perf_counter() - start) / repeats


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", nargs="+", choices=["dot", "linear"], default=["dot", "linear"])
    parser.add_argument("--tokens", nargs="+", type=int, default=[32, 64, 128])
    parser.add_argument("--d-model", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--csv", type=Path, help="write the table to a file too")
    args = parser.parse_args()

    rows = []
    for tokens in args.tokens:
        x = np.random.default_rng(0).normal(size=(2, tokens, args.d_model))
        for name in args.layers:
            if name == "dot":
                time_taken = seconds(DotAttention(args.d_model, args.d_model, args.d_model, 1), (x, x, x), args.repeats)
            else:
                time_taken = seconds(LinearAttention(args.d_model, args.d_model), (x,), args.repeats)
            rows.append((name, tokens, f"{1e3 * time_taken:.3f}"))
            print("{:8s} {:6d} tokens {:>10s} ms".format(*rows[-1]))
    if args.csv:
        args.csv.parent.mkdir(parents=True, exist_ok=True)
        with args.csv.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("layer", "tokens", "milliseconds"), *rows])


if __name__ == "__main__":
    main()
