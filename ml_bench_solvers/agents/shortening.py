"""Long texts made short: their beginning and their end, and how much is missing between them."""

from __future__ import annotations


def shortened(text: str, most: int) -> str:
    """Return a text of about so many characters at the most: its beginning, what is left out, and its end."""
    if len(text) <= most:
        return text
    head = most // 2
    tail = most - head
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out} characters left out …]\n{text[len(text) - tail :]}"
