"""`ml-bench hub check`: whether a folder can be published as it is."""

from __future__ import annotations

from pathlib import Path

from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import MANIFEST, differences, read_manifest
from ml_bench_hub.harbor_check import check_harbor
from ml_bench_hub.tables import Progress
from ml_bench_hub.viewer import check_viewer


def check_folder(folder: Path, *, croissant: bool = False, note: Progress = lambda line: None) -> list[str]:
    """Return one line for each problem of a folder that is to be published as a data set repository.

    Any folder will do: one without a manifest is checked for everything but being as it was built.

    Args:
        folder: of a data set or of Harbor tasks.
        croissant: whether to check its Croissant description too, which needs the package mlcroissant.
        note: receives what is worth knowing, but no problem.

    Raises:
        HubError: there is no such folder, or mlcroissant is not installed.
    """
    if not folder.is_dir():
        raise HubError(f"{folder} is no folder; `ml-bench hub build` makes one")
    # `datasets` takes a relative path for something else where it can: `json` and `harbor` are names of its own.
    folder = folder.resolve()
    problems = []
    if (folder / MANIFEST).exists():
        try:
            problems += differences(folder, read_manifest(folder))
        except HubError as error:
            problems.append(str(error))
    if (folder / "tasks").is_dir():
        return problems + check_harbor(folder)
    problems += check_viewer(folder, note)
    if croissant and not problems:
        from ml_bench_hub.croissant import check_croissant

        problems += check_croissant(folder)
    return problems
