"""How far two samples are apart."""

import numpy as np


def sliced_distance(first, second, directions=16):
    """Sliced Wasserstein-1 distance of two samples of equal size, over evenly spread directions."""
    angles = np.pi * np.arange(directions) / directions
    axes = np.stack([np.cos(angles), np.sin(angles)])
    return float(np.abs(np.sort(first @ axes, axis=0) - np.sort(second @ axes, axis=0)).mean())
