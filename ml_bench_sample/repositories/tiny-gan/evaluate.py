"""Measure a saved generator against the data it was trained on."""

import argparse
from pathlib import Path

import numpy as np

from gan.datasets import DATASETS
from gan.files import load_generator
from gan.metrics import sliced_distance


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--num-samples", type=int, default=1000)
    parser.add_argument("--directions", type=int, default=16, help="number of directions of the sliced distance")
    parser.add_argument("--max-distance", type=float, help="fail with status 1 where the distance is above this")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    generator, facts = load_generator(args.checkpoint)
    rng = np.random.default_rng(args.seed)
    fake = generator.forward(rng.normal(size=(args.num_samples, generator.sizes[0])))
    real = DATASETS[facts["dataset"]](args.num_samples, rng)
    distance = sliced_distance(fake, real, args.directions)
    print(f"{facts['dataset']}: distance {distance:.4f} over {args.num_samples} samples")
    if args.max_distance is not None and distance > args.max_distance:
        raise SystemExit(f"the distance is above {args.max_distance}")


if __name__ == "__main__":
    main()
