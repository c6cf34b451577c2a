"""A generation's folder holds one generation, refuses what is damaged, and never mixes two."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ml_bench_metric.store import OtherRunError, RunError
from ml_bench_solvers.generation.answers import Answer, Sampling
from ml_bench_solvers.generation.folder import GenerationFolder
from ml_bench_solvers.generation.work import Work
from tests.generation_builders import folder, predictions, prompt, stored, work


def _answer(wanted: Work, task: int, index: int, **fields: object) -> Answer:
    task_id = wanted.prompts[task].task_id
    facts = {"key": wanted.keys[task_id][index], "task_id": task_id, "index": index, "status": "ok", **fields}
    return Answer.model_validate(facts)


def test_of_two_answers_for_one_key_the_last_counts(tmp_path: Path) -> None:
    wanted = work()
    with folder(tmp_path, wanted) as opened:
        opened.add(_answer(wanted, 0, 0, status="error"))
        opened.add(_answer(wanted, 0, 0, text="ls"))
        assert len(predictions(tmp_path)) == 1
    assert [answer.text for answer in stored(tmp_path, wanted)] == ["ls"]
    with folder(tmp_path, wanted):
        assert list(predictions(tmp_path).values()) == [["ls"]]


def test_a_line_that_was_torn_off_is_asked_for_again(tmp_path: Path) -> None:
    wanted = work(2)
    with folder(tmp_path, wanted) as opened:
        opened.add(_answer(wanted, 0, 0, text="a"))
        opened.add(_answer(wanted, 1, 0, text="b"))
    path = tmp_path / "generations.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with folder(tmp_path, wanted) as opened:
        [question] = wanted.questions(opened, retry_errors=False)
        assert question.prompt.task_id == wanted.prompts[1].task_id
        assert list(predictions(tmp_path).values()) == [["a"]]
        opened.add(_answer(wanted, 1, 0, text="c"))
    with folder(tmp_path, wanted) as opened:
        assert [answer.text for answer in opened.answers.values()] == ["a", "c"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line.replace("python", "pytho0"),
        lambda line: line.replace(', "checksum"', ', "check"'),
        lambda line: "{}\n",
        lambda line: "\n",
    ],
)
def test_a_damaged_answer_is_refused_with_its_place(tmp_path: Path, damage: Callable[[str], str]) -> None:
    wanted = work()
    with folder(tmp_path, wanted) as opened:
        opened.add(_answer(wanted, 0, 0, text="python a.py"))
    path = tmp_path / "generations.jsonl"
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(RunError, match=r"generations\.jsonl:1: .*remove the line"):
        folder(tmp_path, wanted)


@pytest.mark.parametrize("other", [work(model="other"), work(sampling=Sampling(temperature=0.5))])
def test_another_generation_is_refused(tmp_path: Path, other: Work) -> None:
    folder(tmp_path, work()).close()
    with pytest.raises(OtherRunError, match=r"model: 'm' -> 'other'|temperature: 1\.0 -> 0\.5"):
        folder(tmp_path, other)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with folder(tmp_path, work()), pytest.raises(RunError, match="in use"):
        folder(tmp_path, work())


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match=r"run\.json"):
        folder(tmp_path, work())
    assert (tmp_path / "run.json").read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"identity": 3}', "\x00"])
def test_a_damaged_identity_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "generation.json").write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=r"generation\.json cannot be read"):
        folder(tmp_path, work())


def test_an_answer_that_cannot_be_written_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = work(2)
    opened = folder(tmp_path, wanted)
    opened.add(_answer(wanted, 0, 0, text="a"))
    monkeypatch.setattr(opened, "_file", _Full(opened._file))
    with pytest.raises(RunError, match="No space left"):
        opened.add(_answer(wanted, 1, 0, text="b"))
    opened.close()
    assert [answer.text for answer in stored(tmp_path, wanted)] == ["a"]


class _Full:
    closed = False

    def __init__(self, file: object) -> None:
        self._file = file

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

    def close(self) -> None:
        self.closed = True


def test_what_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be the folder"):
        folder(tmp_path / "file", work())


def test_answers_to_an_older_prompt_do_not_count(tmp_path: Path) -> None:
    wanted = work()
    with folder(tmp_path, wanted) as opened:
        opened.add(_answer(wanted, 0, 0, text="old"))
    changed = Work((prompt(wanted.prompts[0].task_id, "another text"),), "m", Sampling(), 1)
    with GenerationFolder(tmp_path, wanted.identity, {}, changed.keys) as opened:
        assert opened.answers == {} and predictions(tmp_path) == {}
        assert len(changed.questions(opened, retry_errors=False)) == 1


def test_the_file_tells_which_generation_it_is(tmp_path: Path) -> None:
    with folder(tmp_path, work()) as opened:
        opened.write_summary({"n": 1})
    found = json.loads((tmp_path / "generation.json").read_text(encoding="utf-8"))
    assert (found["identity"]["model"], found["identity"]["setting"], found["n"]) == ("m", ["oracle"], 1)
