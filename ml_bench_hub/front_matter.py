"""The YAML at the beginning of a README, which tells the Hub and `datasets` what is in a repository."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from ml_bench_hub.errors import HubError, one_line

_BLOCK = re.compile(r"\A\s*---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def split_front_matter(text: str, where: str) -> tuple[dict[str, Any], str]:
    """Return the metadata of a README, and the text that follows them.

    Raises:
        HubError: there are none, or they are no YAML mapping; the message names the file as `where`, and the line.
    """
    block = _BLOCK.match(text)
    if block is None:
        raise HubError(f"{where}: has no front matter: it must begin with YAML between two lines ---")
    try:
        metadata = yaml.safe_load(block[1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        before = text[: block.start(1)].count("\n")
        line = f":{before + mark.line + 1}" if mark is not None else ""
        reason = getattr(error, "problem", None) or one_line(error)
        raise HubError(f"{where}{line}: the front matter is not YAML: {reason}") from error
    if not isinstance(metadata, dict):
        raise HubError(f"{where}: the front matter is {type(metadata).__name__}, not a mapping of names to values")
    return metadata, text[block.end() :]


def with_front_matter(metadata: Mapping[str, Any], body: str) -> str:
    """Return a README with these metadata, in their order."""
    return f"---\n{to_yaml(dict(metadata))}---\n{body}"


def to_yaml(content: Any) -> str:
    """Return YAML in the order of the content; equal contents give equal texts."""
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
