"""The module cache of `evaluate`, with an entry that `evaluate.load("ml_bench")` finds.

Where no folder and no Space has the name, `evaluate` takes the newest module `evaluate-metric--<name>` of its cache.
Ours only imports the metric of the installed package, so that an upgrade cannot leave an old copy behind.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

NAME = "ml_bench"
"""The name that `evaluate.load` is given."""

_MARK = "ml-bench-registration.json"

_MODULE = '''\
"""Made by `ml-bench register`: what evaluate.load("ml_bench") loads. `ml-bench register --remove` removes it."""

try:
    from ml_bench_metric.ml_bench import MLBench
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "ml_bench_metric":
        raise
    raise ImportError(
        "the metric ml_bench is registered on this machine, but this Python has not got its package: "
        "pip install ml-bench"
    ) from error
'''


def module_folder(modules: Path) -> Path:
    """Return where the entry's versions lie below the folder of `evaluate`'s modules."""
    return modules / "metrics" / f"evaluate-metric--{NAME}"


def find(modules: Path) -> list[Path]:
    """Return the folders of our entry: one, or more where an older version of this package made one too."""
    return [mark.parent for mark in sorted(module_folder(modules).glob(f"*/{_MARK}"))]


def add(modules: Path) -> bool:
    """Make the entry, and return whether there was anything to do.

    Raises:
        OSError: the folder cannot be written.
    """
    place = module_folder(modules)
    target = place / hashlib.sha256(_MODULE.encode()).hexdigest()
    module = f"{NAME}.py"
    if find(modules) == [target] and (target / module).is_file() and (target / module).read_text() == _MODULE:
        return False
    place.mkdir(parents=True, exist_ok=True)
    for package in (place.parent, place):
        (package / "__init__.py").touch()
    # Not inside `place`, where `evaluate` would take any folder for a version of the module.
    draft = Path(tempfile.mkdtemp(prefix=".ml-bench-register-", dir=place.parent))
    try:
        new = draft / "new"
        new.mkdir()
        (new / "__init__.py").touch()
        (new / module).write_text(_MODULE, encoding="utf-8")
        (new / _MARK).write_text("{}\n", encoding="utf-8")
        for number, old in enumerate(find(modules)):
            old.rename(draft / str(number))
        new.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return True


def remove(modules: Path) -> bool:
    """Remove the entry, and return whether there was one.

    Raises:
        OSError: it cannot be removed.
    """
    found = find(modules)
    for folder in found:
        shutil.rmtree(folder)
    place = module_folder(modules)
    if found and {path.name for path in place.iterdir()} <= {"__init__.py", "__pycache__"}:
        shutil.rmtree(place)
    return bool(found)
