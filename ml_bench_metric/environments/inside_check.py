"""Looks at an environment's image from inside: its Python, the repositories' folders, the modules that must import.

The text of this file is run in a container by the image's own Python, 3.7 or later. It takes a JSON object with
`folders`, `may_be_empty` and `modules`, and writes a line `[kind, name, fault]` for each answer, at once: importing a
module may end the process.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Write what is found to standard output; what the modules print goes to standard error."""
    wanted = json.loads(sys.argv[1])
    answers = os.dup(1)
    os.dup2(2, 1)

    def say(kind: str, name: str, fault: str) -> None:
        os.write(answers, (json.dumps([kind, name, fault]) + "\n").encode())

    say("python", ".".join(map(str, sys.version_info[:2])), "")
    for folder in wanted["folders"]:
        say("folder", folder, _fault_of_folder(folder, wanted["may_be_empty"]))
    for module in wanted["modules"]:
        say("import", module, _fault_of_module(module))


def _fault_of_folder(folder: str, may_be_empty: bool) -> str:
    if not Path(folder).is_dir():
        return "is not there"
    for path, _, _ in os.walk(folder):
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            return f"candidates cannot write in {path}"
    return "" if may_be_empty or any(Path(folder).iterdir()) else "is empty"


def _fault_of_module(name: str) -> str:
    try:
        importlib.import_module(name)
    except BaseException as error:
        return " ".join(f"{type(error).__name__}: {error}".split())
    return ""


if __name__ == "__main__":
    main()
