"""Looking for a value among the tokens of a program.

The values of the public data are free text: numbers, names, paths, flags, lists, phrases, pieces of names. So:

- A number is found where a number of the same value stands: 0.10 = 0.1, 1e-3 = 0.001, '128' = 128. Inside a name it
  needs at least two digits and no digit or decimal point next to it: 152 in `ResNet152`, but not 1 in `10` or `conv1`.
- A path or file name is found as whole components of a path, in the asked case, however `./a//b/` is spelled:
  `x.csv` and `./data` in `data/x.csv`, but not `x.csv` in `max.csv`.
- A single letter must be a whole item, in the asked case.
- Any other text is found, in any case, where no letter and no digit goes on before or after it: between `_`, `-`, `.`
  and the like, between letters and digits, where camel case starts a new word. `city` is in `label2city_512` and
  `ResNet` in `ResNet50`, but not `ink` in `think`. After it -s, -es, -ed or -ing may follow, because the instructions
  ask to "inpaint" where the function is `inpainting`.
- A value of several items (split at white space, commas, colons, `=`, quotes, brackets) is found where these follow
  each other: `-j 2` in `-j 2`, `-j2` and `-j=2`; `(50,49,512)` in `torch.randn(50, 49, 512)`; `8,10` in
  `window_size=8,10`. The dashes of a flag are not counted.

Case does not count, except where it says so, because the references themselves write `infogan.py` for InfoGAN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

_SEPARATORS = re.compile(r"""[\s,;=|'"`()\[\]{}<>]+|:(?!//)""")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_NUMBER_IN_NAME = re.compile(r"(?<![\d.])\d+(?:\.\d+)?(?![\d]|\.\d)", re.ASCII)
_LONGEST_NUMBER = 100
_FLAG = re.compile(r"--?(?=[A-Za-z])")
_SHORT_FLAG = re.compile(r"(-[A-Za-z])(\d+(?:\.\d*)?)", re.ASCII)
_FILE_NAME = re.compile(r"[\w.+-]*\w\.[A-Za-z][A-Za-z0-9]{0,4}")
_HERE = re.compile(r"(?<![^\s=:,'\"(\[])(?:\./+)+(?=[^\s/])")
_SLASHES = re.compile(r"(?<!:)/(?:\.?/)+")
_INFLECTION = re.compile(r"(?:s|es|ed|ing)(?![^\W_])", re.IGNORECASE)
_SENTENCE_END = ".,;:!?"


class Haystack:
    """The tokens of one program, made ready for searching."""

    def __init__(self, tokens: Iterable[str]) -> None:
        spelled = [_spelled(token) for token in tokens]
        self._tokens = frozenset(spelled)
        self._text = "\n".join(spelled)
        self._items = [item for token in spelled for item in _items(token)]
        self._keys = [_key(item) for item in self._items]
        self._numbers = {key for key in self._keys if isinstance(key, Decimal)}
        names = [item for item, key in zip(self._items, self._keys, strict=True) if isinstance(key, str)]
        for name in names:
            for match in _NUMBER_IN_NAME.finditer(name):
                if len(match[0]) > 1 and (number := _number(match[0])) is not None:
                    self._numbers.add(number)

    def has_value(self, value: str) -> bool:
        """Whether a value (not empty) is among the tokens."""
        if (number := _number(value)) is not None:
            return number in self._numbers
        has_slash = "/" in value
        value = _spelled(value)
        items = _items(value)
        if len(items) == 1 and _FLAG.match(value):
            return _key(items[0]) in self._keys
        if len(value) == 1 or not any(char.isalnum() for char in value):
            return value in self._items or value in self._tokens
        if (has_slash and len(items) == 1) or _FILE_NAME.fullmatch(value):
            return self._has_path(value)
        return self._has_text(value) or (len(items) > 1 and self._has_sequence([_key(item) for item in items]))

    def has_name(self, name: str) -> bool:
        """Whether a flag or name is among the tokens; `-` and `_` are the same, blanks count as `_`."""
        wanted = _plain_name(name)
        return any(_plain_name(item) == wanted for item in self._items)

    def _has_path(self, value: str) -> bool:
        return re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-]|\.\w)", self._text) is not None

    def _has_text(self, value: str) -> bool:
        for match in re.finditer(re.escape(value), self._text, re.IGNORECASE):
            if _starts_word(self._text, match.start()) and _ends_word(self._text, match.end()):
                return True
        return False

    def _has_sequence(self, keys: list[str | Decimal]) -> bool:
        first = [start for start, key in enumerate(self._keys) if key == keys[0]]
        return any(self._keys[start : start + len(keys)] == keys for start in first)


def _spelled(text: str) -> str:
    """Return a text with runs of white space as one blank and paths in their plainest spelling."""
    text = _SLASHES.sub("/", _HERE.sub("", " ".join(text.split())))
    return text.rstrip("/") or text if " " not in text else text


def _items(text: str) -> list[str]:
    items: list[str] = []
    for item in _SEPARATORS.split(text):
        if glued := _SHORT_FLAG.fullmatch(item):
            items.extend(glued.groups())
        elif item:
            items.append(item if _NUMBER.fullmatch(item) else item.rstrip(_SENTENCE_END) or item)
    return items


def _key(item: str) -> str | Decimal:
    """Return what an item is compared by: its value where it is a number, else its lower-case spelling."""
    number = _number(item)
    return number if number is not None else _FLAG.sub("-", _spelled(item).lower(), count=1)


def _number(text: str) -> Decimal | None:
    return Decimal(text) if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) else None


def _plain_name(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower().lstrip("-"))


def _starts_word(text: str, at: int) -> bool:
    """Whether a word starts at a place of a text, or the place is within no word."""
    before, after = text[at - 1] if at else "\n", text[at]
    if before == "." and after.isdigit() and at > 1 and text[at - 2].isdigit():
        return False
    if not (before.isalnum() and after.isalnum()):
        return True
    if before.isdigit() != after.isdigit():
        return True
    following = text[at + 1 : at + 2]
    return after.isupper() and (before.islower() or (before.isupper() and following.islower()))


def _ends_word(text: str, at: int) -> bool:
    """Whether a word ends before a place of a text, inflections left aside."""
    if at == len(text):
        return True
    if text[at] == "." and text[at - 1].isdigit() and text[at + 1 : at + 2].isdigit():
        return False
    if not (text[at - 1].isalnum() and text[at].isalnum()):
        return True
    return _starts_word(text, at) or (text[at - 1].isalpha() and _INFLECTION.match(text, at) is not None)
