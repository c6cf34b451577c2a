"""Candidates whose text breaks readers: large ones, and characters that files, shells and parsers stumble over."""

from __future__ import annotations

from tests.hostile.case import Case, exits

_LARGE = 20_000_000

CASES = (
    Case(
        "twenty-megabytes-of-bash",
        ("a 20 MB candidate",),
        "#" + "x" * _LARGE + "\nwc -c < $0; exit 3",
        exits(3),
        also=lambda found: int(found.stdout.head) > _LARGE,
    ),
    Case(
        "twenty-megabytes-of-python",
        ("a 20 MB candidate",),
        f"text = '{'x' * _LARGE}'\nprint(len(text))",
        exits(0),
        "python",
        limits={"memory_bytes": 512 * 1024 * 1024},
        also=lambda found: found.stdout.head == f"{_LARGE}\n",
    ),
    Case("nul-in-python", ("a candidate with NUL",), "print('a\0b')", exits(1), "python"),
    Case("nul-in-bash", ("a candidate with NUL",), "echo fine\nprintf '%s\n' 'a\0b'\nexit 3", exits(3)),
    Case("bom-in-python", ("a candidate with BOM",), "\ufeffprint(1)", exits(0), "python"),
    Case("bom-in-bash", ("a candidate with BOM",), "\ufeffecho x", exits(127)),
    Case("crlf-in-python", ("a candidate with CRLF",), "if True:\r\n    print(1)\r\n", exits(0), "python"),
    Case("crlf-in-bash", ("a candidate with CRLF",), "true\r\nexit 0\r\n", exits(2)),
    Case(
        "non-bmp-in-python",
        ("a candidate with non-BMP characters",),
        "print(ascii('\U0001f40d\U00020000\U0010ffff'))",
        exits(0),
        "python",
        also=lambda found: found.stdout.head == "'\\U0001f40d\\U00020000\\U0010ffff'\n",
    ),
    Case(
        "non-bmp-in-bash",
        ("a candidate with non-BMP characters",),
        "printf '\U0001f40d\u202e\u2028\x85'; exit 1",
        exits(1),
        also=lambda found: found.stdout.head == "\U0001f40d\u202e\u2028\x85",
    ),
    Case("lone-surrogate-in-python", ("a candidate with non-BMP characters",), "print('\ud800')", exits(0), "python"),
    Case("deeply-nested-python", ("a 20 MB candidate",), "(" * 100_000 + ")" * 100_000, exits(1), "python"),
)
