"""The error of this package, and how texts of others are put into its one line."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST = 300
_SHOWN = 3


class HubError(ValueError):
    """Something cannot be published or registered; the message is one line that says what, why, and the way out."""


def one_line(text: object) -> str:
    """Return a text, such as an error's, on one line of bounded length."""
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


def some(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
