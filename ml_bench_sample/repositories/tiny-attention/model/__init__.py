"""Attention layers and what goes around them, in NumPy alone."""
