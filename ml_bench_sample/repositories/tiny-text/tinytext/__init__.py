"""Text classification with bags of n-grams, in NumPy alone."""
