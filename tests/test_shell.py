"""The words of a bash text are those that bash makes, and no text is too odd to be read."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_bench_metric import shell


def words(text: str, **variables: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in shell.read(text, variables).commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python a.py --x 1", [["python", "a.py", "--x", "1"]]),
        ("a 'b  c' \"d e\" f\\ g", [["a", "b  c", "d e", "f g"]]),
        ("a --x='1 2'\"3\"", [["a", "--x=1 23"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("a \\ \n  b", [["a", " "], ["b"]]),
        ('a "b\\\nc\\$d\\e"', [["a", "bc$d\\e"]]),
        ("a $'x\\ty\\x41'", [["a", "x\tyA"]]),
        ("a # b\nc#d", [["a"], ["c#d"]]),
        ("a \\\n# b", [["a"]]),
        ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a 2>&1 > out < in &> all", [["a", "out", "in", "all"]]),
        ("a --x <value>", [["a", "--x", "value"]]),
        ("a ''", [["a", ""]]),
        ("a é 我\u00a0b", [["a", "é", "我\u00a0b"]]),
        ("a $(b $(c)) `d`", [["c"], ["b", ""], ["d"], ["a", "", ""]]),
        ("x=$(b) c", [["b"], ["x=", "c"]]),
        ("diff <(a) <(b) c", [["a"], ["b"], ["diff", "c"]]),
        ("f() { a; }; f 1", [["{", "a"], ["}"], ["f", "1"]]),
        ("case $x in a) b;; c|d) e;; esac; f", [["case", "$x", "in", "a"], ["b"], ["c"], ["e"], ["esac"], ["f"]]),
        ("if ((a > 1)); then b; fi", [["if"], ["then", "b"], ["fi"]]),
        ("A=(1 '2 3'\n4); b", [["A=", "1", "2 3", "4"], ["b"]]),
        ("", []),
    ],
)
def test_words_are_those_of_bash(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a $M/x ${M}_y", ["a", "m n/x", "m n_y"]),
        ("a '$M' \\$M", ["a", "$M", "$M"]),
        ('a "$M"', ["a", "m n"]),
        ("M=2; a $M", ["a", "2"]),
        ("export M=2 N='3 4'; a $M $N", ["a", "2", "3", "4"]),
        ("M+=o; a $M", ["a", "m", "no"]),
        ("a $UNKNOWN ${UNKNOWN} ${UNKNOWN:-d} ${#M}", ["a", "$UNKNOWN", "${UNKNOWN}", "d", "${#M}"]),
        ("M=x a $M", ["M=x", "a", "m", "n"]),
        ("B=$M; a $B", ["a", "m", "n"]),
        ("a b=$M", ["a", "b=m", "n"]),
        ("EMPTY=; a $EMPTY b", ["a", "b"]),
    ],
)
def test_variables_are_expanded_where_bash_would(text: str, expected: list[str]) -> None:
    text = text.replace("$M/x ${M}_y", '"$M/x" "${M}_y"')
    assert words(text, M="m n")[-1] == expected


def test_here_documents_belong_to_their_command() -> None:
    script = shell.read("cat <<A <<-'B' | grep x\n1 $V\nA\n\t2 $V\n\tB\nls", {"V": "v"})
    assert [(command.words[0].text, command.documents) for command in script.commands] == [
        ("cat", ["1 v", "2 $V"]),
        ("grep", []),
        ("ls", []),
    ]


def test_here_document_without_an_end_reaches_to_the_end() -> None:
    assert shell.read("cat <<A\n1\n2").commands[0].documents == ["1\n2"]


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a $(b", "a `b", "(a", "a)", "a ${b", "A=(1", "$((1"])
def test_open_ends_make_a_script_incomplete(text: str) -> None:
    assert not shell.read(text).complete


@pytest.mark.parametrize("text", ["a 'b'", "(a)", "$(a)", "a ${b}", "case a in b) c;; esac", "x=$((1+(2)))"])
def test_closed_ends_make_a_script_complete(text: str) -> None:
    assert shell.read(text).complete


def test_functions_and_assignments_are_told() -> None:
    script = shell.read("f () { a; }\nX=1 Y[0]=2 b Z=3")
    assert script.functions == {"f"}
    assert script.commands[-1].assignments == 2


def test_backticks_are_told_where_they_substitute() -> None:
    assert shell.read('a "`b`"').backticks
    assert not shell.read("a '`b`' # `c`").backticks


@pytest.mark.parametrize(
    "piece",
    ["$a", "$(", "(", "`", "${", "$'", "a=$a$a;", '"', "a=( ", "<<E\n", "((", "case x in\n", "$((1+", "<(a ", "x="],
)
def test_no_text_of_full_length_takes_long(piece: str) -> None:
    started = time.monotonic()
    shell.read((piece * 30_000)[:30_000])
    assert time.monotonic() - started < 10


def test_expansions_cannot_grow_without_bound() -> None:
    script = shell.read("A=xxxxxxxxxx\n" + "A=$A$A\n" * 60 + "a $A")
    assert sum(len(word.text) for command in script.commands for word in command.words) < 5_000_000


@given(st.text(alphabet="ab1 \t\n'\"\\$`(){}<>|&;#=A*é-", max_size=40))
def test_any_text_is_read(text: str) -> None:
    shell.read(text, {"A": "x y"})


# `printf` shows the words that bash makes; only quotes, blanks and plain characters are tried, nothing that could run.
_PIECES = ["a", "1", "=", "-", " ", "  ", "'", '"', "\\", "#", "\n", "\\\n", "${A}", '"${B}"', "${B}", ".", "é", "\t"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash to compare with")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=10).map("".join))
def test_words_agree_with_bash_itself(tail: str) -> None:
    text = 'printf "%s\\0" start ' + tail
    script = shell.read(text, {"A": "x", "B": "p q"})
    if script.complete and len(script.commands) == 1 and not tail.endswith("\\"):
        done = subprocess.run(
            ["bash", "--norc", "-c", text],
            env={"A": "x", "B": "p q", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            timeout=10,
            check=True,
        )
        assert [word.text for word in script.commands[0].words][2:] == done.stdout.decode().split("\0")[:-1]
