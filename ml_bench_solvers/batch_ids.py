"""Custom ids: the name of a request in a batch, from which the task and the places of its answers can be read again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LONGEST_ID = 64
"""Characters. The shortest limit among those who take batches."""

_KEPT = re.compile(r"[A-Za-z0-9-]", re.ASCII)
# An escape is `_` and two digits, so that `__` is never part of a name. A digest stands where a name is too long.
_CUSTOM_ID = re.compile(
    r"(?P<name>(?:[A-Za-z0-9-]|_[0-9a-f]{2})*)__(?P<first>\d{1,6})(?:x(?P<count>\d{1,6}))?", re.ASCII
)
_SHORTENED_ID = re.compile(
    r"(?P<name>[A-Za-z0-9-]*__h[0-9a-f]{32})__(?P<first>\d{1,6})(?:x(?P<count>\d{1,6}))?", re.ASCII
)
_LONGEST_NAME = LONGEST_ID - len("__999999x999999")
_DIGEST_DIGITS = 32
_MOST = 999_999


@dataclass(frozen=True)
class Places:
    """Which answers of a task a request is for."""

    task_id: str
    first: int
    """Position of its first answer among the task's, from 0."""
    count: int = 1


def custom_id(places: Places) -> str:
    """Return the id of a request: at most 64 of the characters `A-Z a-z 0-9 _ -`, and no other request's.

    `dgl/1`, answer 0 is `dgl_2f1__0`; five answers from 0 on are `dgl_2f1__0x5`.

    Raises:
        ValueError: a place or a count has more than six digits, or is less than 0 or 1.
    """
    if not (0 <= places.first <= _MOST and 1 <= places.count <= _MOST):
        raise ValueError(f"answers {places.first}, {places.count} of them: give a place from 0 and a count from 1")
    count = f"x{places.count}" if places.count > 1 else ""
    return f"{_name(places.task_id)}__{places.first}{count}"


def places_of(text: str, task_ids: Mapping[str, str]) -> Places | None:
    """Return what the id of a request says; None where it is no such id, or of no known task.

    Args:
        text: the id.
        task_ids: what `known_names` returns.
    """
    found = _CUSTOM_ID.fullmatch(text) or _SHORTENED_ID.fullmatch(text)
    if found is None or found["name"] not in task_ids:
        return None
    return Places(task_ids[found["name"]], int(found["first"]), int(found["count"] or 1))


def known_names(task_ids: Iterable[str]) -> dict[str, str]:
    """Return the tasks that ids may be of: their name in an id -> `task_id`."""
    return {_name(task_id): task_id for task_id in task_ids}


def _name(task_id: str) -> str:
    data = task_id.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if _KEPT.fullmatch(chr(byte)) else f"_{byte:02x}" for byte in data)
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(data).hexdigest()[:_DIGEST_DIGITS]
    start = "".join(_KEPT.findall(task_id))[: _LONGEST_NAME - len("__h") - _DIGEST_DIGITS]
    return f"{start}__h{digest}"
