"""The record of a candidate must survive being written and read, whatever a model wrote."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ml_bench_metric.results import KEPT_PROGRAM_BYTES, Program, Result, text_sha256
from ml_bench_metric.sandbox.execution import Output
from tests.result_builders import BAD, ERROR, execution, quick, result

# Every code point, also those that UTF-8 cannot hold.
any_text = st.text(st.characters(exclude_categories=()))


@quick
@given(program=any_text, said=any_text, problem=any_text)
def test_no_text_is_changed_by_writing_and_reading(program: str, said: str, problem: str) -> None:
    before = result(text=program, extraction=said, problems=(problem,), strict=BAD)
    line = before.to_json()
    line.encode("ascii")
    assert "\n" not in line
    assert Result.from_json(line) == before
    assert Result.from_json(line.encode()) == before


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "\U0001f600", "\ufeff", "\u2028", "\r\n", "\x1b[31m"])
def test_a_lone_surrogate_nul_or_astral_character_does_not_crash_a_file(text: str) -> None:
    before = result(text=text)
    assert before.program is not None
    assert before.program.text == text
    assert Result.from_json(before.to_json()) == before


def test_two_surrogates_of_one_character_are_that_character_as_in_json() -> None:
    program = Program.of("\ud83d\ude00")
    assert program == Program.of("\U0001f600")
    assert program.text == json.loads('"\\ud83d\\ude00"')
    assert text_sha256("\ud83d\ude00") == text_sha256("\U0001f600")


def test_different_lone_surrogates_have_different_digests() -> None:
    assert len({text_sha256(text) for text in ("\ud800", "\ud801", "?", "\ufffd")}) == 4
    assert text_sha256("abc") == hashlib.sha256(b"abc").hexdigest()


def test_an_execution_survives_writing_with_every_digit() -> None:
    ran = execution(
        "still_running", cpu_seconds=0.1 + 0.2, peak_memory_bytes=2**53 + 1, stdout=Output(head="\ufffd\x00")
    )
    before = result(execution=ran)
    assert Result.from_json(before.to_json()) == before


def test_a_large_program_is_kept_in_part_and_says_so() -> None:
    text = "x" * (20 * 1024 * 1024)
    program = Program.of(text)
    assert (len(program.text), program.bytes, program.truncated) == (KEPT_PROGRAM_BYTES, len(text), True)
    assert program.sha256 == text_sha256(text)


@pytest.mark.parametrize("character", ["é", "€", "\U0001f600", "\ud800"])
@pytest.mark.parametrize("offset", range(5))
def test_a_large_program_is_never_cut_inside_a_character(character: str, offset: int) -> None:
    text = "x" * offset + character * KEPT_PROGRAM_BYTES
    kept = Program.of(text).text
    assert text.startswith(kept)
    assert KEPT_PROGRAM_BYTES - 4 < len(kept.encode("utf-8", "surrogatepass")) <= KEPT_PROGRAM_BYTES


def test_a_program_of_just_the_limit_is_whole() -> None:
    assert not Program.of("x" * KEPT_PROGRAM_BYTES).truncated


def test_an_execution_that_did_not_happen_cannot_be_recorded_as_one() -> None:
    with pytest.raises(ValidationError, match="belong together"):
        result(execution=None)
    with pytest.raises(ValidationError, match="belong together"):
        result(text=None, execution=None, program=Program.of("true"))


def test_checks_of_one_rule_alone_are_refused() -> None:
    with pytest.raises(ValidationError, match="'strict' are missing"):
        result(checks={"original": BAD})


@pytest.mark.parametrize(
    "change", [{"candidate": -1}, {"candidate_sha256": "abc"}, {"limit_seconds": 0}, {"verdict": True}]
)
def test_a_wrong_or_unknown_field_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(change))):
        result(**change)


@pytest.mark.parametrize("line", ["", "{", "[]", "null", '{"task_id": "repo/1"}', '"\\ud800"'])
def test_a_broken_line_is_an_error_and_no_record(line: str) -> None:
    with pytest.raises(ValueError):
        Result.from_json(line)


def test_infinite_times_are_not_written_as_json_that_others_cannot_read() -> None:
    with pytest.raises(ValueError):
        result(execution=execution(cpu_seconds=float("inf"))).to_json()


@quick
@given(any_text)
def test_reading_twice_gives_the_same_line(text: str) -> None:
    line = result(text=text, execution=ERROR).to_json()
    assert Result.from_json(line).to_json() == line
