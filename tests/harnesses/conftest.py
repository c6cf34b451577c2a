"""These run where the harnesses are installed: `scripts/test-harnesses.sh` makes an environment for each."""

from __future__ import annotations

from importlib.util import find_spec

_NEEDED = {"test_inspect.py": "inspect_ai", "test_lm_eval.py": "lm_eval"}

collect_ignore = [name for name, package in _NEEDED.items() if find_spec(package) is None]
