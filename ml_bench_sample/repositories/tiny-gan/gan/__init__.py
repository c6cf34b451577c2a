"""Generative adversarial networks on two-dimensional toy data, in NumPy alone."""
