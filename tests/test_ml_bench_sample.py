"""The sample benchmark: its files fit together, its repositories do what they say, and every trap is there."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import pytest

import ml_bench_sample
from ml_bench_metric.checks import check
from ml_bench_metric.results import RULES
from ml_bench_metric.sandbox.execution import Outcome
from ml_bench_metric.tasks import Task

UPSTREAM = {
    "github_id": int,
    "github": str,
    "repo_id": int,
    "path": str,
    "arguments": str,
    "instruction": str,
    "oracle": str,
    "type": str,
    "id": int,
    "prefix_code": str,
    "output": str,
}
COLUMNS = {
    **UPSTREAM,
    "task_id": str,
    "repository": str,
    "commit": type(None),
    "domain": str,
    "environment": str,
}
CANDIDATES = 5


def lines(name: str) -> list[dict[str, Any]]:
    text = (ml_bench_sample.path() / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


SPLITS = {"L": lines("tasks_l.jsonl"), "A": lines("tasks_a.jsonl")}
TASKS = {row["task_id"]: Task.from_row(row) for row in SPLITS["L"]}
EXPECTED = lines("expected.jsonl")
REPOSITORIES = sorted(folder.name for folder in ml_bench_sample.repositories().iterdir())


def predictions() -> dict[str, list[str]]:
    by_key = {task.key: task_id for task_id, task in TASKS.items()}
    found: dict[str, list[str]] = {}
    for line in lines("predictions.jsonl"):
        task_id = line["task_id"] if "task_id" in line else by_key[line["github_id"], line["id"]]
        assert task_id not in found
        found[task_id] = line["output"]
    return found


PREDICTIONS = predictions()
ANSWERS = {(line["task_id"], line["candidate"]): PREDICTIONS[line["task_id"]][line["candidate"]] for line in EXPECTED}


# The tasks


@pytest.mark.parametrize("split", SPLITS)
def test_rows_have_the_columns_of_the_data_set_in_order_and_type(split: str) -> None:
    for row in SPLITS[split]:
        assert {name: type(value) for name, value in row.items()} == COLUMNS
        assert list(row) == list(COLUMNS)
        assert row["type"] in ("Bash Script", "Python Code")


@pytest.mark.parametrize("split", SPLITS)
def test_keys_are_unique_where_upstreams_are(split: str) -> None:
    rows = SPLITS[split]
    for key in (("task_id",), ("github_id", "id"), ("github_id", "repo_id")):
        assert len({tuple(row[name] for name in key) for row in rows}) == len(rows), key


def test_id_alone_is_not_unique_as_upstream() -> None:
    assert max(Counter(row["id"] for row in SPLITS["L"]).values()) == 2


def test_facts_of_a_repository_follow_from_its_name() -> None:
    numbers: dict[str, int] = {}
    for row in SPLITS["L"]:
        name = row["repository"]
        assert name in REPOSITORIES
        assert row["task_id"] == f"{name}/{row['id']}"
        assert row["github"] == f"https://example.org/ml-bench-sample/{name}"
        assert row["environment"] == "sample"
        assert numbers.setdefault(name, row["github_id"]) == row["github_id"]
    assert sorted(numbers.values()) == [901, 902, 903, 904]


def test_splits_have_the_promised_size_and_mixture() -> None:
    kinds = Counter(row["type"] for row in SPLITS["L"])
    assert kinds == {"Bash Script": 23, "Python Code": 14}
    assert len(SPLITS["A"]) == 10
    assert {row["repository"] for row in SPLITS["A"]} == set(REPOSITORIES)
    assert all(row in SPLITS["L"] for row in SPLITS["A"])
    assert all(count >= 9 for count in Counter(row["repository"] for row in SPLITS["L"]).values())


def test_folders_come_in_upstreams_spellings_and_exist() -> None:
    paths = {row["path"] for row in SPLITS["L"]}
    assert {"", "./"} < paths
    assert any(path.endswith("/") for path in paths - {"./"})
    assert any(path and not path.endswith("/") for path in paths)
    for row in SPLITS["L"]:
        assert (ml_bench_sample.repositories() / row["repository"] / row["path"]).is_dir(), row["task_id"]


def test_arguments_are_dict_literals_of_all_kinds_of_value() -> None:
    values: list[object] = []
    for row in SPLITS["L"]:
        arguments = ast.literal_eval(row["arguments"])
        assert isinstance(arguments, dict)
        assert arguments
        values.extend(arguments.values())
    assert {type(value) for value in values} == {str, int, float}
    assert "" in values


def test_oracles_are_parts_of_the_readme() -> None:
    for row in SPLITS["L"]:
        readme = (ml_bench_sample.repositories() / row["repository"] / "README.md").read_text(encoding="utf-8")
        assert row["oracle"] in readme
        assert len(row["oracle"]) > 100


def test_prefix_code_has_installations_prompts_and_exports() -> None:
    codes = [row["prefix_code"] for row in SPLITS["L"] if row["prefix_code"]]
    assert 0 < len(codes) < len(SPLITS["L"])
    assert any(code == "pip install numpy" for code in codes)
    assert any(code.startswith("$ ") for code in codes)
    assert sum("export " in code for code in codes) == len(NEEDS_VARIABLES)


# The references


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("task_id", TASKS)
def test_reference_passes_the_static_checks(task_id: str, rule: Any) -> None:
    checks = check(TASKS[task_id].output, TASKS[task_id], rule)
    assert checks.both, checks


NEEDS_VARIABLES = ["tiny-gan/9", "tiny-forecast/8", "tiny-text/26"]

WRITES = {
    "tiny-gan/1": ["outputs/generator.npz"],
    "tiny-gan/2": ["ring_250.csv"],
    "tiny-gan/4": ["images/wgan_0015.pgm"],
    "tiny-gan/5": ["/tmp/lsgan/grid.npz"],
    "tiny-gan/8": ["ring_run/generator.npz"],
    "tiny-gan/9": ["/tmp/tiny-gan/spiral/images/00005.pgm", "/tmp/tiny-gan/spiral/images/00010.pgm"],
    "tiny-forecast/5": ["checkpoints/Linear_bakery_28_14_test_0/forecast.csv"],
    "tiny-forecast/7": ["../../checkpoints/SeasonalNaive_bakery_28_21_bakery_0/checkpoint.npz"],
    "tiny-forecast/8": ["../../checkpoints/Decomposed_harbour_48_12_harbour_0/checkpoint.npz"],
    "tiny-forecast/9": ["checkpoints/anomalies_harbour_test.csv"],
    "tiny-forecast/10": ["storm.csv"],
    "tiny-forecast/14": [f"checkpoints/Linear_harbour_28_7_test_{run}/checkpoint.npz" for run in (0, 1)],
    "tiny-attention/24": ["recall.npz"],
    "tiny-attention/26": ["linear.csv"],
    "tiny-text/24": ["model.json"],
    "tiny-text/26": ["/tmp/tiny-text/topics.json"],
    "tiny-text/27": ["split/train.tsv", "split/test.tsv"],
    "tiny-text/29": ["labels.tsv"],
}
"""Files of a reference, relative to its working folder."""


class Workplace:
    """A fresh copy of a repository, with commands `python` and `python3` that are this interpreter."""

    def __init__(self, folder: Path, repository: str) -> None:
        self.root = folder / repository
        self.tmp = folder / "tmp"
        shutil.copytree(
            ml_bench_sample.repositories() / repository, self.root, ignore=shutil.ignore_patterns("__pycache__")
        )
        self._commands = folder / "bin"
        for made in (self.tmp, self._commands):
            made.mkdir()
        for name in ("python", "python3"):
            # Not a link: a virtual environment is found from the place of its interpreter.
            command = self._commands / name
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
            command.chmod(0o755)

    def local(self, text: str) -> str:
        """The text with a `/tmp` of its own, so that nothing is left on the machine that runs the tests."""
        return re.sub(r"(?<![\w.])/tmp(?=/)", str(self.tmp), text)

    def run(self, command: list[str], folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self._commands}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.tmp),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        return subprocess.run(
            command,
            cwd=folder,
            env=environment | {name: self.local(value) for name, value in variables.items()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def reference(self, task: Task, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        folder = self.root / task.path
        if task.language == "bash":
            return self.run(["bash", "-c", self.local(task.output)], folder, variables)
        program = folder / "candidate.py"
        program.write_text(task.output, encoding="utf-8")
        return self.run(["python", program.name], folder, variables)


@pytest.mark.parametrize("task_id", TASKS)
def test_reference_runs_and_writes_its_files(task_id: str, tmp_path: Path) -> None:
    task = TASKS[task_id]
    workplace = Workplace(tmp_path, task.repository)
    done = workplace.reference(task, task.variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not done.stderr
    for name in WRITES.get(task_id, []):
        assert (workplace.root / task.path / workplace.local(name)).stat().st_size > 0


@pytest.mark.parametrize("task_id", NEEDS_VARIABLES)
def test_reference_needs_the_variables_of_prefix_code(task_id: str, tmp_path: Path) -> None:
    task = TASKS[task_id]
    assert task.variables
    assert Workplace(tmp_path, task.repository).reference(task, {}).returncode != 0


# The repositories


def readme_blocks(repository: str) -> list[str]:
    """The indented blocks of a README: commands, or Python programs."""
    text = (ml_bench_sample.repositories() / repository / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?m)(?:^    .*\n(?:\n(?=    ))?)+", text)
    return ["".join(line[4:] or "\n" for line in block.splitlines(keepends=True)) for block in blocks]


@pytest.mark.parametrize("repository", REPOSITORIES)
def test_readme_shows_what_works(repository: str, tmp_path: Path) -> None:
    workplace = Workplace(tmp_path, repository)
    blocks = [block for block in readme_blocks(repository) if not block.startswith("pip install")]
    assert len(blocks) > 4
    for block in blocks:
        shell = re.match(r"(python|bash|cd|export) ", block)
        done = workplace.run(["bash", "-ec", block] if shell else ["python", "-c", block], workplace.root, {})
        assert done.returncode == 0, f"{block}\n{done.stderr}"


LEARNS = {
    "tiny-gan": ("python train.py", r"distance (?P<before>\S+) -> (?P<after>[\d.]+),"),
    "tiny-forecast": (
        "python run.py --task_name forecast --data_path harbour.csv --season 12",
        r"(?s)validation (?P<before>\S+).*validation (?P<after>\S+)",
    ),
    "tiny-attention": ("python train_recall.py", r"(?s)loss (?P<before>\S+).*loss (?P<after>\S+)"),
    "tiny-text": (
        "python train.py --data data/topics.tsv --model logistic",
        r"loss (?P<before>\S+) -> (?P<after>\S+)",
    ),
}


@pytest.mark.parametrize("repository", REPOSITORIES)
def test_training_learns(repository: str, tmp_path: Path) -> None:
    command, pattern = LEARNS[repository]
    workplace = Workplace(tmp_path, repository)
    done = workplace.run(["bash", "-c", command], workplace.root, {})
    found = re.search(pattern, done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found["after"]) < 0.7 * float(found["before"])


def test_repositories_hold_nothing_that_was_generated_by_a_run() -> None:
    tracked = [path for path in ml_bench_sample.repositories().rglob("*") if "__pycache__" not in path.parts]
    assert not [path for path in tracked if path.name in {"outputs", "images", "split", "model.json", "recall.npz"}]
    assert sum(path.stat().st_size for path in tracked if path.is_file()) < 200_000


# Predictions and expectations


def test_predictions_answer_every_task_five_times_in_both_forms() -> None:
    assert list(PREDICTIONS) == list(TASKS)
    assert all(len(answers) == CANDIDATES for answers in PREDICTIONS.values())
    assert all(isinstance(answer, str) for answers in PREDICTIONS.values() for answer in answers)
    forms = Counter(frozenset(line) for line in lines("predictions.jsonl"))
    assert set(forms) == {frozenset({"github_id", "id", "output"}), frozenset({"task_id", "output"})}


def test_every_candidate_has_an_expectation() -> None:
    wanted = [(task_id, index) for task_id in TASKS for index in range(CANDIDATES)]
    assert [(line["task_id"], line["candidate"]) for line in EXPECTED] == wanted


def test_expectations_have_their_fields_and_contradict_neither_themselves_nor_the_rules() -> None:
    for line in EXPECTED:
        fields = ["task_id", "candidate", "trap", "outcome", "original", "strict"]
        none = [line[name] for name in ("original_none", "strict_none") if name in line]
        assert list(line) == fields + (["original_none", "strict_none"] if none else [])
        assert all(isinstance(value, bool) for value in [line["original"], line["strict"], *none])
        assert not none or none != [line["original"], line["strict"]], line
        assert line["outcome"] in (None, *get_args(Outcome))
        if line["outcome"] not in ("exited", "still_running"):
            assert not line["original"], line
            assert not line["strict"], line


def test_few_candidates_last_until_the_limit() -> None:
    outcomes = Counter(line["outcome"] for line in EXPECTED)
    assert outcomes["still_running"] == 6
    assert outcomes["out_of_memory"] == 2
    assert outcomes["killed"] == 3


def test_both_rules_disagree_in_both_directions() -> None:
    verdicts = Counter((line["original"], line["strict"]) for line in EXPECTED)
    assert min(verdicts[pair] for pair in [(True, True), (False, False), (True, False), (False, True)]) >= 10


EXTRACTED = {"fenced", "several-fences", "unclosed-fence", "silent-fence", "prompt-sign", "notebook-pip"}
"""Traps in which the program is not the whole answer."""


@pytest.mark.parametrize("rule", RULES)
def test_what_passes_passes_the_static_checks(rule: Any) -> None:
    for line in EXPECTED:
        if line[rule] and line["trap"] not in EXTRACTED:
            answer = ANSWERS[line["task_id"], line["candidate"]]
            assert check(answer, TASKS[line["task_id"]], rule).both, line


PASSES_ONLY_UNDER = {
    "original": {"value-as-substring", "argument-in-comment", "missing-argument", "sleeper"},
    "strict": {
        "number-notation",
        "path-notation",
        "string-in-pieces",
        "module-run",
        "no-blank-after-py",
        "mentions-py",
    },
}


def test_the_rules_differ_for_a_known_reason() -> None:
    for line in EXPECTED:
        if line["original"] != line["strict"]:
            assert line["trap"] in PASSES_ONLY_UNDER["original" if line["original"] else "strict"], line


# The traps

Look = Callable[[str], bool]


def does_not_parse(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return True
    return False


def contains(pattern: str) -> Look:
    return lambda text: re.search(pattern, text) is not None


def whole_fence(text: str) -> bool:
    return text.startswith("```") and text.endswith("\n```") and text.count("```") == 2


LOOKS: dict[str, Look | None] = {
    "": None,
    "absolute-path": contains(r" /workspace/"),
    "argument-in-comment": contains(r"# "),
    "background": contains(r"&$"),
    "broken-continuation": contains(r"\\ \n"),
    "busy-training": None,
    "computed-value": contains(r"\d // \d"),
    "default-value": None,
    "early-exit": contains(r"\bexit\b"),
    "empty-answer": lambda text: text == "",
    "equals-sign": contains(r"--[\w-]+="),
    "fenced": contains(r"```"),
    "flags-without-program": contains(r"^--"),
    "identical-answers": None,
    "invented-name": None,
    "killed-by-signal": contains(r"kill|ctypes"),
    "last-status-counts": contains(r"\n"),
    "leaves-a-file": None,
    "long-answer": lambda text: 5_500 < len(text) < 6_500,
    "masked-status": contains(r"\|\| true$|\| tee"),
    "memory-hog": None,
    "mentions-py": contains(r"\.py "),
    "missing-argument": None,
    "missing-module": contains(r"import"),
    "module-run": contains(r"python -m"),
    "needs-earlier-file": None,
    "needs-network": contains(r"https://example\.org/"),
    "newline-in-f-string": lambda text: does_not_parse(text) and contains(r'f"[^"\n]*\n')(text),
    "no-blank-after-py": lambda text: ".py" in text and ".py " not in text,
    "non-bmp": contains(r"[\U00010000-\U0010ffff]"),
    "nonzero-exit": contains(r"sys\.exit"),
    "notebook-pip": contains(r"^!pip install"),
    "number-notation": contains(r"[ =(]\.\d|\de-\d|\.\d+0\b|--lr 0\.1$"),
    "other-way": None,
    "output-flood": contains(r"20000"),
    "path-notation": contains(r"/\./"),
    "placeholder-redirection": contains(r" <[^>]+> "),
    "program-not-found": None,
    "prompt-sign": contains(r"(?m)^\$ "),
    "prose": None,
    "prose-backticks": contains(r"`python [^`]+`"),
    "quoted-values": contains(r"'"),
    "reads-stdin": contains(r"input\("),
    "refusal": None,
    "runtime-error": None,
    "several-fences": lambda text: text.count("```") == 4 and not text.startswith("```"),
    "silent-fence": lambda text: whole_fence(text) and "> " in text,
    "sleeper": contains(r"sleep|tail -f"),
    "smart-quotes": contains(r"“.*”"),
    "string-in-pieces": contains(r'" "'),
    "swallows-errors": contains(r"except "),
    "syntax-error": None,
    "unclosed-fence": lambda text: text.count("```") == 1,
    "unquoted-value": None,
    "unset-variable": contains(r"\$[A-Z]+$"),
    "value-as-substring": None,
    "wrong-case": None,
    "wrong-folder": None,
    "wrong-language": None,
    "wrong-value": None,
}
"""Every trap, and how an answer shows it where its text does."""


def answers_with(trap: str) -> Iterable[str]:
    return [ANSWERS[line["task_id"], line["candidate"]] for line in EXPECTED if line["trap"] == trap]


@pytest.mark.parametrize("trap", LOOKS)
def test_trap_is_there_and_looks_like_one(trap: str) -> None:
    answers = list(answers_with(trap))
    assert answers
    look = LOOKS[trap]
    assert look is None or all(look(answer) for answer in answers)


def test_traps_are_those_of_the_readme() -> None:
    readme = (ml_bench_sample.path() / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Traps")[2].partition("## ")[0]
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", section))
    traps = {line["trap"] for line in EXPECTED} - {""}
    assert traps <= named
    assert traps == set(LOOKS) - {""}


def test_five_identical_answers_to_one_task() -> None:
    same = [task_id for task_id, answers in PREDICTIONS.items() if len(set(answers)) == 1]
    assert [line["task_id"] for line in EXPECTED if line["trap"] == "identical-answers"] == same * CANDIDATES


def test_syntax_errors_are_errors_of_the_task_s_language(tmp_path: Path) -> None:
    for line in EXPECTED:
        if line["trap"] == "syntax-error":
            answer = ANSWERS[line["task_id"], line["candidate"]]
            if TASKS[line["task_id"]].language == "python":
                assert does_not_parse(answer)
            else:
                assert subprocess.run(["bash", "-n", "-c", answer], capture_output=True).returncode != 0


@pytest.mark.parametrize(
    ("task_id", "writer", "reader", "file"),
    [("tiny-gan/8", 2, 3, "ring_run/generator.npz"), ("tiny-text/29", 0, 1, "labels.tsv")],
)
def test_isolation_alone_decides_on_the_answer_that_needs_an_earlier_one(
    task_id: str, writer: int, reader: int, file: str, tmp_path: Path
) -> None:
    task = TASKS[task_id]
    workplace = Workplace(tmp_path, task.repository)
    programs = [["bash", "-c", PREDICTIONS[task_id][index]] for index in (writer, reader)]
    assert workplace.run(programs[1], workplace.root, {}).returncode != 0
    assert workplace.run(programs[0], workplace.root, {}).returncode == 0
    assert (workplace.root / file).is_file()
    assert workplace.run(programs[1], workplace.root, {}).returncode == 0
