"""Making quoted text harmless to what carries it: chat formats, and the lines that say where the quotation ends."""

from __future__ import annotations

import hashlib
import re

_MARKER = re.compile(
    r"<(?=[|\uff5c][^<>|\uff5c\n]{1,40}[|\uff5c]>"  # <|im_start|>, <|eot_id|>, and with the wide bars of some
    r"|/?s>|/?(?:start|end)_of_(?:turn|text)>|[be]os>|/?think>|/?tool_call>|<\/?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])"
)
"""First characters of the control markers of chat formats. Where a server takes a message's text for tokens as it
stands, such a marker would end the message and begin another."""


def without_markers(text: str) -> tuple[str, int]:
    """Return a text in which a blank is behind the first character of each chat marker, and how many there were."""
    return _MARKER.subn(lambda match: match[0] + " ", text)


def boundary_of(text: str) -> str:
    """Return a word for the lines around a quotation: no text can have the one that its own digest makes."""
    return f"quotation-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
