"""Tasks of lm-evaluation-harness. Run as a module this prints their folder, which `lm_eval --include_path` takes."""

from __future__ import annotations

from pathlib import Path


def path() -> str:
    """Return the folder of the tasks."""
    return str(Path(__file__).parent)
