"""A line of results that was damaged or changed is never taken for what was stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_metric.sealed import SealBroken, cut_torn_line, seal, unseal
from tests.result_builders import quick

TEXTS = st.dictionaries(st.text(), st.text(), min_size=1).map(json.dumps)


@quick
@given(TEXTS)
def test_a_record_comes_back_as_it_was_and_stays_json(record: str) -> None:
    assert unseal(seal(record) + "\n") == record
    assert json.loads(seal(record)).keys() >= json.loads(record).keys()


@quick
@given(TEXTS, st.data())
def test_a_record_with_one_other_character_is_refused(record: str, data: st.DataObject) -> None:
    line = seal(record)
    place = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda character: character != line[place]))
    with pytest.raises(SealBroken):
        unseal(line[:place] + other + line[place + 1 :])


@quick
@given(TEXTS, st.data())
def test_a_part_of_a_line_is_refused(record: str, data: st.DataObject) -> None:
    line = seal(record)
    with pytest.raises(SealBroken):
        unseal(line[: data.draw(st.integers(0, len(line) - 1))])


def test_a_record_without_a_checksum_is_refused() -> None:
    with pytest.raises(SealBroken, match="no checksum"):
        unseal('{"a": 1}\n')


@pytest.mark.parametrize(
    ("content", "left"),
    [(b"", b""), (b"a\n", b"a\n"), (b"a\nb", b"a\n"), (b"b", b""), (b"a\n" + b"x" * 200_000, b"a\n")],
)
def test_a_line_without_its_end_is_cut_off(tmp_path: Path, content: bytes, left: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)
    cut_torn_line(path)
    assert path.read_bytes() == left
