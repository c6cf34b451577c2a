"""Toy distributions in the plane, each inside the square [-2, 2] x [-2, 2]."""

import numpy as np

NOISE = 0.05


def ring(count, rng):
    """Eight Gaussians on a circle of radius 1.5."""
    angles = 2.0 * np.pi * rng.integers(0, 8, count) / 8.0
    centres = 1.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return centres + rng.normal(0.0, NOISE, (count, 2))


def grid(count, rng):
    """Nine Gaussians on a 3 x 3 grid."""
    return 1.5 * (rng.integers(0, 3, (count, 2)) - 1.0) + rng.normal(0.0, NOISE, (count, 2))


def spiral(count, rng):
    """One turn and a half of a spiral."""
    t = np.sqrt(rng.uniform(0.05, 1.0, count))
    angles = 3.0 * np.pi * t
    return 1.7 * np.stack([t * np.cos(angles), t * np.sin(angles)], axis=1) + rng.normal(0.0, NOISE, (count, 2))


DATASETS = {"ring": ring, "grid": grid, "spiral": spiral}
