"""What an environment image's labels must be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast, get_args

from ml_bench_metric.environments.images import (
    ASSETS,
    CHECKOUT,
    DEVICE,
    GPU,
    LACKING,
    MISSING,
    ORIGIN,
    PARENT,
    PLATFORM,
    RECIPE,
    RECIPE_NAME,
    REPOSITORIES,
    TASKS,
    image_kind,
    image_name,
)
from ml_bench_metric.environments.recipe import Device
from ml_bench_metric.environments.stored import StoredImage
from ml_bench_metric.sandbox.execution import Assets

_LABELS = (RECIPE_NAME, REPOSITORIES, TASKS, ASSETS, LACKING, DEVICE, GPU, PLATFORM, CHECKOUT, MISSING, PARENT, ORIGIN)


def missing_labels(image: StoredImage) -> list[str]:
    """Return the names of the labels that an environment image lacks; an older version made it, if there are any."""
    return [name for name in _LABELS if name not in image.labels]


def label_faults(image: StoredImage) -> list[str]:
    """Return what is wrong with the labels of an environment image, in words; nothing if they are whole."""
    missing = missing_labels(image)
    if missing:
        return [f"no label {', '.join(missing)}; an older version made it"]
    return list(_contradictions(image))


def _contradictions(image: StoredImage) -> Iterator[str]:
    labels = image.labels
    allowed = {
        ASSETS: get_args(Assets),
        DEVICE: get_args(Device),
        GPU: ("none", "optional", "required"),
        CHECKOUT: ("yes", "no", "bare"),
    }
    for name, values in allowed.items():
        if labels[name] not in values:
            yield f"label {name} is {labels[name]!r}, which is none of {', '.join(values)}"
    if not labels[MISSING].isdecimal():
        yield f"label {MISSING} is {labels[MISSING]!r}, which is no number"
    if not labels[REPOSITORIES]:
        yield f"label {REPOSITORIES} names none"
    kind = image_kind(
        cast(Assets, labels[ASSETS]),
        cast(Device, labels[DEVICE]),
        labels[PLATFORM],
        checkout=labels[CHECKOUT] != "no",
        bare=labels[CHECKOUT] == "bare",
    )
    name = image_name(f"ml-bench/{labels[RECIPE_NAME].lower()}", labels[RECIPE], kind)
    if image.name != name:
        yield f"its labels are those of {name}"
