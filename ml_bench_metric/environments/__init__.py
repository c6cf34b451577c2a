"""Recipes of the images; building, naming and finding them."""
