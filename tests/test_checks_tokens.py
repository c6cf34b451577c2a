"""Tokens are what a program uses, in its order; what stands for nothing is none."""

from __future__ import annotations

import pytest

from ml_bench_metric.checks import tokens
from ml_bench_metric.tasks import Language


def of(program: str, language: Language = "bash", **variables: str) -> list[str]:
    return tokens.of_program(program, language, variables)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import a.b as c", ["a.b", "c"]),
        ("from a import b", ["a", "b"]),
        ("x = a.b.c(1, d='e')", ["x", "a.b.c", "1", "d", "e"]),
        ("a().b", ["a", "b"]),
        ("f(-1, -2.50, - -3, 1_000, 0x10, 1e-5)", ["f", "-1", "-2.5", "-3", "1000", "16", "1e-05"]),
        ("f(True, None, b'c', ...)", ["f", "True", "None", "c"]),
        ("x = f'a {b} c'", ["x", "a ", "b", " c"]),
        ("d = {'a': 1, **b, 'c': 2}", ["d", "a", "1", "b", "c", "2"]),
        ("def f(a, *b, c=1): global d", ["f", "a", "b", "c", "1", "d"]),
        ("x = 'a' 'b'", ["x", "ab"]),
        ("'''docstring'''\ndef f():\n    '''another'''\n    0.5\n# comment\n", ["f"]),
        ("os.path.join('a', 'b.c')", ["a/b.c", "os.path.join", "a", "b.c"]),
        ("os.path.join(a, 'b')", ["os.path.join", "a", "b"]),
        ("f(" + "9" * 2_000 + ")", ["f"]),
        ("f(0x" + "f" * 20_000 + ")", ["f"]),
    ],
)
def test_python_yields_names_and_constants_in_order(program: str, expected: list[str]) -> None:
    assert of(program, "python") == expected


def test_expression_as_deep_as_the_parser_admits_is_read() -> None:
    assert of("1" + "+1" * 900, "python") == ["1"] * 901


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("python a.py --x=1 # 5", ["python", "a.py", "--x=1"]),
        ("$V/b '$V'", ["a/b", "$V"]),
        ("W=$V; b $W", ["W=a", "b", "a"]),
        (": --x 5\n: <<E\n5\nE\n", []),
        ("echo 5", ["echo", "5"]),
        ("python -c 'f(0.10) # 5'", ["python", "-c", "f", "0.1"]),
        ("python3 -u -c 'f(2)' 3", ["python3", "-u", "-c", "f", "2", "3"]),
        ("python a.py -c 5 -c b/c.yaml", ["python", "a.py", "-c", "5", "-c", "b/c.yaml"]),
        ("bash -lc 'a --x 1 # 5'", ["bash", "-lc", "a", "--x", "1"]),
        ("eval 'a 1' 'b # 5'", ["eval", "a", "1", "b"]),
        ("python - <<E\nf(0.10) # 5\nE\n", ["python", "-", "f", "0.1"]),
        ("cat > a.sh <<E\npython b.py --x 1 # 5\nE\n", ["cat", "a.sh", "python", "b.py", "--x", "1"]),
        ("a $(b 5)", ["b", "5", "a", ""]),
    ],
)
def test_bash_yields_words_and_those_of_programs_inside(program: str, expected: list[str]) -> None:
    assert of(program, V="a") == expected


def test_what_is_no_python_is_read_as_words() -> None:
    assert of("python a.py --x 1 # 5", "python") == ["python", "a.py", "--x", "1"]


def test_programs_inside_programs_end_somewhere() -> None:
    program = "echo 5"
    for _ in range(12):
        program = "bash -c " + "'" + program.replace("'", "'\\''") + "'"
    assert of(program)[:2] == ["bash", "-c"]
