"""From text to n-grams."""

import re

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def ngrams(text, longest=1):
    """Lower-cased words of a text, and the runs of up to `longest` of them, joined by a blank."""
    words = WORD.findall(text.lower())
    return [" ".join(words[i : i + n]) for n in range(1, longest + 1) for i in range(len(words) - n + 1)]
