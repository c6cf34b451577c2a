"""Checkpoints, samples and pictures on disk."""

import json
from pathlib import Path

import numpy as np

from gan.networks import MLP


def save_generator(path, generator, **facts):
    """Write a generator and facts about its training to an .npz file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"parameter_{i}": p for i, p in enumerate(generator.parameters)}
    np.savez(path, facts=json.dumps({"sizes": generator.sizes, **facts}), **arrays)


def load_generator(path):
    """Read what `save_generator` wrote -> (generator, facts)."""
    with np.load(path) as stored:
        facts = json.loads(str(stored["facts"]))
        generator = MLP(facts["sizes"], np.random.default_rng(0))
        for index, parameter in enumerate(generator.parameters):
            parameter[...] = stored[f"parameter_{index}"]
    return generator, facts


def save_picture(path, samples, size=48):
    """Write the density of samples as a grey picture (PGM)."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    counts, _, _ = np.histogram2d(samples[:, 1], samples[:, 0], bins=size, range=[[-2, 2], [-2, 2]])
    grey = np.uint8(255 * counts[::-1] / max(counts.max(), 1.0))
    path.write_bytes(f"P5 {size} {size} 255\n".encode() + grey.tobytes())
