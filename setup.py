"""For tools that still look for this file; every fact about the package is in pyproject.toml."""

from setuptools import setup

setup()
