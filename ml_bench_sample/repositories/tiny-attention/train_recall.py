"""Train one attention layer to look up the value that belongs to a key.

A sequence holds `--pairs` pairs of a random key and a random value; the query is one of the keys, and the layer has to
answer with its value.
"""

import argparse
from pathlib import Path

import numpy as np

from model.attention.DotAttention import DotAttention


def batch(rng, size, pairs, d_key):
    """Sequences (size, pairs, 2 * d_key), queries (size, 1, 2 * d_key), answers (size, 1, 2 * d_key)."""
    keys = np.sign(rng.normal(size=(size, pairs, d_key)))
    values = np.sign(rng.normal(size=(size, pairs, d_key)))
    wanted = rng.integers(0, pairs, size)
    rows = np.arange(size)
    empty = np.zeros((size, 1, d_key))
    query = np.concatenate([keys[rows, wanted][:, None], empty], axis=2)
    answer = np.concatenate([empty, values[rows, wanted][:, None]], axis=2)
    return np.concatenate([keys, values], axis=2), query, answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=4, help="pairs in a sequence")
    parser.add_argument("--d-key", type=int, default=8, help="features of a key and of a value")
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("recall.npz"), help="where the weights are saved")
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    d_model = 2 * args.d_key
    layer = DotAttention(d_model, d_model, d_model, args.heads, args.seed)
    speed = {name: np.zeros_like(weight) for name, weight in layer.weights.items()}
    size = {name: np.zeros_like(weight) for name, weight in layer.weights.items()}
    for step in range(1, args.steps + 1):
        sequence, query, answer = batch(rng, args.batch_size, args.pairs, args.d_key)
        error = layer(query, sequence, sequence) - answer
        for name, gradient in layer.backward(2.0 * error / len(error)).items():
            speed[name] += 0.1 * (gradient - speed[name])
            size[name] += 0.01 * (gradient**2 - size[name])
            layer.weights[name] -= args.lr * speed[name] / (np.sqrt(size[name]) + 1e-8)
        if step % 50 == 0 or step in (1, args.steps):
            print(f"step {step:5d}  loss {(error**2).sum(axis=2).mean():.4f}")
    sequence, query, answer = batch(rng, 500, args.pairs, args.d_key)
    guess = np.sign(layer(query, sequence, sequence)[..., args.d_key :])
    print(f"bits recalled: {(guess == answer[..., args.d_key :]).mean():.3f}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(args.out, **layer.weights)


if __name__ == "__main__":
    main()
