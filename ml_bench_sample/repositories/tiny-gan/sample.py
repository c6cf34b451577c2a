"""Draw samples from a saved generator."""

import argparse
from pathlib import Path

import numpy as np

from gan.files import load_generator, save_picture


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--num-samples", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("samples.csv"))
    parser.add_argument("--picture", type=Path, help="write the density as a PGM file too")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    generator, facts = load_generator(args.checkpoint)
    noise = np.random.default_rng(args.seed).normal(size=(args.num_samples, generator.sizes[0]))
    samples = generator.forward(noise)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(args.out, samples, delimiter=",", fmt="%.5f", header="x,y", comments="")
    if args.picture:
        save_picture(args.picture, samples)
    print(f"{len(samples)} samples of {facts['dataset']!r} written to {args.out}")


if __name__ == "__main__":
    main()
