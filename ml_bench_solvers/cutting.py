"""Cutting a text at a budget of characters or tokens, never inside what a reader sees as one character."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ml_bench_solvers.prompt_error import PromptError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PRESETS = {"100k": 100_000, "400k": 400_000}
"""Names of the budgets that the paper has, in characters."""

_ZERO_WIDTH_JOINER = "\u200d"
_LONGEST_SEQUENCE = 32
"""Characters that one visible character may have; a longer pile of marks is cut as it comes."""
_CHARACTERS_PER_TOKEN = 6
"""First guess of how much text a budget of tokens needs."""


class Budget(Protocol):
    """How much text a model is shown."""

    def cut(self, text: str) -> str:
        """Return the text, or its beginning that fits."""
        ...


@dataclass(frozen=True)
class CharacterBudget:
    """So many characters (code points)."""

    characters: int

    def cut(self, text: str) -> str:
        """Return the text, or its beginning that fits."""
        return text[: whole_character(text, self.characters)]


class TokenBudget:
    """So many tokens of a tokenizer, special tokens not counted."""

    def __init__(self, tokens: int, tokenizer: str) -> None:
        """Load the tokenizer.

        Args:
            tokens: how many.
            tokenizer: a file `tokenizer.json`, a folder with one, or a name on the Hub, which is downloaded.

        Raises:
            PromptError: the tokenizer cannot be had, or package `tokenizers` is missing.
        """
        self.tokens = tokens
        self._tokenizer = _load(tokenizer)

    def cut(self, text: str) -> str:
        """Return the text, or its beginning that fits."""
        beginning = text
        length = self.tokens * _CHARACTERS_PER_TOKEN
        while length < len(text):
            beginning = text[: whole_character(text, length)]
            if len(self._offsets(beginning)) > self.tokens:
                break
            beginning, length = text, length * 2
        # A text that ends within a word may have more tokens than that word's share of the whole, so it is asked again.
        while len(offsets := self._offsets(beginning)) > self.tokens:
            # Several tokens can make one character up: it starts where the first token that is too many does.
            end = min(offsets[self.tokens][0], len(beginning) - 1)
            beginning = beginning[: whole_character(beginning, end)]
        return beginning

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)


def parse_budget(text: str, tokenizer: str | None = None) -> Budget:
    """Return the budget of `100k`, `400k` or a number: of characters, or of tokens where a tokenizer is given.

    Raises:
        PromptError: it is no such number, or the tokenizer cannot be had.
    """
    cleaned = text.strip().lower().replace("_", "").replace(",", "")
    if cleaned not in PRESETS and not (cleaned.isascii() and cleaned.isdigit() and int(cleaned) > 0):
        raise PromptError(f"budget {text!r}: write {', '.join(PRESETS)}, or a number of characters such as 250000")
    amount = PRESETS[cleaned] if cleaned in PRESETS else int(cleaned)
    return TokenBudget(amount, tokenizer) if tokenizer else CharacterBudget(amount)


def whole_character(text: str, limit: int) -> int:
    """Return the last place up to a limit at which a text can be cut without parting a visible character."""
    if limit >= len(text):
        return len(text)
    for end in range(limit, max(limit - _LONGEST_SEQUENCE, 0), -1):
        if not _belongs(text[end - 1], text[end]):
            return end
    return limit if limit > _LONGEST_SEQUENCE else 0


def _belongs(before: str, after: str) -> bool:
    """Return whether two characters in a row may be parts of one that is seen."""
    if after.isascii():
        return False
    return (
        unicodedata.category(after).startswith("M")  # accents, vowel signs, variation selectors
        or _ZERO_WIDTH_JOINER in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or all("\U0001f1e6" <= letter <= "\U0001f1ff" for letter in (before, after))  # the two letters of a flag
        or "\u1160" <= after <= "\u11ff"  # Korean syllables in parts
    )


def _load(name: str) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise PromptError('a budget of tokens needs `pip install "ml-bench[tokenizers]"`') from error
    path = Path(name)
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        tokenizer = Tokenizer.from_file(str(file)) if file.is_file() else Tokenizer.from_pretrained(name)
    except Exception as error:  # the package raises bare Exception for files
        raise PromptError(
            f"tokenizer {name!r} cannot be loaded: {' '.join(str(error).split())}; give a file tokenizer.json "
            "or a name on the Hub that can be reached"
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
