"""What a candidate starts is remembered, bounded, and nothing that the sandbox itself runs is taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_bench_metric.sandbox import command_lines
from ml_bench_metric.sandbox.command_lines import MAX_BYTES, MAX_COMMANDS, CommandLines, child_of

INIT, FIRST, MINE = 70, 77, 80


class Processes:
    """A folder that looks like `/proc`."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.alive: list[int] = []

    def run(self, pid: int, *arguments: str | bytes, parent: int = 1) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        encoded = [one if isinstance(one, bytes) else one.encode() for one in arguments]
        (folder / "cmdline").write_bytes(b"".join(one + b"\0" for one in encoded))
        (folder / "stat").write_text(f"{pid} (a) b) c) S {parent} 1 1")
        self.alive = sorted({*self.alive, pid})

    def lines(self, first: int | None = FIRST) -> CommandLines:
        return CommandLines(lambda: self.alive, first, INIT, proc=self.proc)


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    monkeypatch.setattr(command_lines, "_PAUSE_SECONDS", 0.0)
    found = Processes(tmp_path)
    found.run(INIT, "init", "--", "bash", "-c", "echo 128")
    found.run(FIRST, "bash", "-c", "echo 128")
    return found


def test_nothing_counts_before_the_candidate_has_started(processes: Processes) -> None:
    processes.run(MINE, "head", "-c", "128")
    lines = processes.lines()
    lines.look()
    assert not lines.seen
    processes.run(FIRST, "/usr/bin/timeout", "--signal=KILL", "128", "bash", "run.sh")
    # Before it has become the script, it looks like what it was forked from.
    processes.run(MINE, "/usr/bin/timeout", "--signal=KILL", "128", "bash", "run.sh")
    lines.look()
    assert not lines.seen
    processes.run(MINE, "bash", "run.sh")
    lines.look()
    assert lines.seen == ("bash run.sh",)


def test_a_process_that_becomes_another_program_counts_twice_and_one_that_stays_once(processes: Processes) -> None:
    processes.run(FIRST, "timeout", "9")
    lines = processes.lines()
    for _ in range(2):
        processes.run(MINE, "bash", "run.sh")
        lines.look()
        processes.run(MINE, "python", "train.py", "--name", "two words", "")
        lines.look()
    assert lines.seen == ("bash run.sh", "python train.py --name 'two words'")


def test_the_first_and_the_last_are_kept_each_cut_to_its_beginning(processes: Processes) -> None:
    processes.run(FIRST, "timeout", "9")
    lines = processes.lines()
    for number in range(3 * MAX_COMMANDS):
        processes.run(MINE, "step", str(number))
        lines.look()
    assert len(lines.seen) == MAX_COMMANDS
    assert (lines.seen[0], lines.seen[-1]) == ("step 0", f"step {3 * MAX_COMMANDS - 1}")
    processes.run(MINE, "x" * 10 * MAX_BYTES)
    lines.look()
    assert len(lines.seen[-1]) == MAX_BYTES


def test_what_is_no_text_a_process_without_arguments_and_one_that_is_gone_do_no_harm(processes: Processes) -> None:
    processes.run(FIRST, "timeout", "9")
    processes.run(MINE, b"\xff\x1b[2J")
    processes.run(MINE + 1)
    processes.alive.append(12345)
    lines = processes.lines()
    lines.look()
    assert lines.seen == ("'\ufffd\x1b[2J'",)


def test_where_the_starting_process_is_not_known_nothing_is_seen(processes: Processes) -> None:
    processes.run(MINE, "python", "train.py")
    lines = processes.lines(first=None)
    lines.look()
    assert lines.seen == ()


def test_the_child_of_a_process_is_found_whatever_its_name(processes: Processes) -> None:
    processes.run(FIRST, "bash", parent=INIT)
    assert child_of(INIT, [INIT, MINE, FIRST], proc=processes.proc) == FIRST
    assert child_of(12345, [INIT, MINE, FIRST], proc=processes.proc) is None
