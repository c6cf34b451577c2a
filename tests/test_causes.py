"""Why a candidate failed: every cause has an example, their order is kept, and there is always exactly one."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_metric.causes import CAUSES, PAPER_CLASSES, FailureCause, find
from ml_bench_metric.checks import Checks
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.sandbox.execution import Execution, Outcome, Output
from ml_bench_metric.verdicts import verdict
from tests.cause_builders import PYTHON_FILE, failed, python_failed, traceback
from tests.result_builders import BAD, ERROR, FAILING, GOOD, execution, quick, result

WRONG_TYPE = Checks(arguments=True, type=False)
LIBRARY = "/usr/local/lib/python3.11/dist-packages/torch/nn.py"
REPOSITORY = "/workspace/tiny/tiny/net.py"


def raised(error: str, *frames: tuple[str, str]) -> str:
    """The traceback of an error that was raised while the program called `net.fit(3)`."""
    return traceback(error, (PYTHON_FILE, "net.fit(3)"), *frames)


EXAMPLES: dict[FailureCause, Result] = {
    "refusal_or_empty": failed("I am sorry, but I cannot write this for you.", "line 1: I: command not found\n"),
    "wrong_language": failed(
        "import torch\nprint(torch.ones(3))\n", "line 2: syntax error near unexpected token `('\n"
    ),
    "syntax_error": python_failed(
        "def f(:\n    pass\n", f'  File "{PYTHON_FILE}", line 1\n    def f(:\nSyntaxError: bad\n'
    ),
    "placeholder": failed("python train.py --data /path/to/data", "FileNotFoundError: no /path/to/data\n"),
    "wrong_argument": failed("python train.py --rate 3", "train.py: error: unrecognized arguments: --rate 3\n"),
    "argument_missing": failed("python train.py", "train.py: error: the following arguments are required: --data\n"),
    "missing_module": python_failed(
        "import hydra\nhydra.main()", raised("ModuleNotFoundError: No module named 'hydra'")
    ),
    "missing_attribute": python_failed("net.fit(3)", raised("AttributeError: module 'net' has no attribute 'fit'")),
    "undefined_name": python_failed("net.fit(3)", raised("NameError: name 'net' is not defined")),
    "missing_file": failed(
        "python go.py --n 3", "python: can't open file '/w/go.py': [Errno 2] No such file or directory\n"
    ),
    "out_of_memory": result(execution=execution("out_of_memory")),
    "disk_limit": result(execution=execution("disk_full")),
    "output_limit": result(execution=execution("output_limit")),
    "needs_gpu": python_failed("net.fit(3)", raised("AssertionError: Torch not compiled with CUDA enabled")),
    "needs_network": python_failed("net.fit(3)", raised("OSError: [Errno -3] Temporary failure in name resolution")),
    "crash_in_repository": python_failed("net.fit(3)", raised("ZeroDivisionError: no", (REPOSITORY, "a / b"))),
    "crash_in_program": python_failed("net.fit(3)", raised("ValueError: shapes differ", (LIBRARY, "g(x)"))),
    "waits": result(execution=execution("still_running", cpu_seconds=0.1)),
    "other": result(execution=FAILING),
}


def cause(of: Result) -> FailureCause:
    """The cause under the strict rule, under which all examples fail."""
    return find(of)["strict"].cause


def test_there_is_an_example_of_every_cause() -> None:
    assert tuple(EXAMPLES) == CAUSES == get_args(FailureCause)


@pytest.mark.parametrize("wanted", CAUSES)
def test_each_cause_is_found_in_its_example(wanted: FailureCause) -> None:
    found = find(EXAMPLES[wanted])["strict"]
    assert found.cause == wanted
    assert found.evidence


@pytest.mark.parametrize(
    "wanted", [name for name in CAUSES if name not in ("waits", "refusal_or_empty", "wrong_language")]
)
def test_a_failed_check_comes_after_faults_of_the_program_and_before_its_surroundings(wanted: FailureCause) -> None:
    of_the_program = CAUSES.index(wanted) <= CAUSES.index("missing_file")
    with_bad_checks = EXAMPLES[wanted].model_copy(update={"checks": dict.fromkeys(RULES, BAD)})
    assert cause(with_bad_checks) == (wanted if of_the_program else "argument_missing")


def test_an_answer_without_a_program_comes_before_everything() -> None:
    refused = EXAMPLES["refusal_or_empty"].model_copy(update={"checks": dict.fromkeys(RULES, BAD)})
    assert cause(refused) == "refusal_or_empty"
    # Each line of it is an unknown command, which would be a missing file.
    assert (
        cause(failed("import torch\nx = torch.ones(3)", "bash: line 1: import: command not found\n"))
        == "wrong_language"
    )


def test_a_missing_argument_comes_before_the_wrong_type_and_both_are_causes_of_programs_that_run() -> None:
    both = Checks(arguments=False, type=False, missing=("k=12",))
    assert cause(result(original=both, strict=both)) == "argument_missing"
    assert cause(result(original=WRONG_TYPE, strict=WRONG_TYPE)) == "wrong_language"


def test_the_evidence_of_a_failed_check_names_the_arguments() -> None:
    found = find(result(strict=Checks(arguments=False, type=True, missing=("k=12", "lr=1"))))["strict"]
    assert (found.evidence, found.paper_class) == ("not in the program: k=12, lr=1", "E3")


def test_a_rule_under_which_the_candidate_passes_or_is_undecided_has_no_cause() -> None:
    assert find(result()) == {}
    assert find(result(execution=ERROR)) == {}
    assert list(find(result(original=BAD))) == ["original"]
    assert list(find(EXAMPLES["waits"])) == ["strict"]


def test_a_candidate_that_fails_its_checks_has_a_cause_even_where_the_sandbox_failed() -> None:
    assert cause(result(execution=ERROR, strict=BAD)) == "argument_missing"


def test_a_placeholder_is_no_cause_of_a_program_that_runs() -> None:
    assert cause(result(text="python train.py --data /path/to/data", strict=BAD)) == "argument_missing"


@pytest.mark.parametrize(
    ("extraction", "wanted"),
    [
        ("none: empty", "refusal_or_empty"),
        ("none: prose", "refusal_or_empty"),
        ("none: Python, but the task asks for bash", "wrong_language"),
        ("none: fenced blocks without bash (python)", "wrong_language"),
        ("none: fenced blocks without bash (no tag)", "refusal_or_empty"),
        ("none: longer than 100,000 characters", "other"),
    ],
)
def test_an_answer_without_a_program_has_the_cause_that_its_extraction_tells(extraction: str, wanted: str) -> None:
    assert cause(result(text=None, extraction=extraction)) == wanted


def test_the_evidence_is_bounded_however_long_a_line_is() -> None:
    found = find(python_failed("net.fit(3)", raised("NameError: name 'net" + "x" * 9000 + "' is not defined")))
    assert len(found["strict"].evidence) == 300


CHECKS = st.sampled_from([GOOD, BAD, WRONG_TYPE])
TEXT = st.one_of(
    st.text(st.characters(), max_size=200),
    st.lists(
        st.sampled_from(
            [
                "Traceback (most recent call last):",
                '  File "/workspace/a/b.py", line 1, in f',
                "│ ❱ 3 │ raise ValueError(x)",
                "│ /workspace/a/b.py:3 in f",
                "ValueError: 'x'",
                "TypeError",
                "During handling of the above exception, another exception occurred:",
                "bash: line 3: --x: command not found",
                "x: error: y",
                "\x1b[31mKeyError: '\x00'\x1b[0m",
                "```python",
                "--data <your data> \\",
                "python a.py",
                "import os",
                "\ud800",
                "│" * 500,
            ]
        ),
        max_size=12,
    ).map("\n".join),
)


@quick
@given(
    program=st.none() | TEXT,
    outcome=st.sampled_from(get_args(Outcome)),
    status=st.integers(0, 255),
    streams=st.tuples(TEXT, TEXT, TEXT),
    truncated=st.booleans(),
    kind=st.sampled_from(["Bash Script", "Python Code"]),
    checks=st.tuples(CHECKS, CHECKS),
)
def test_every_failed_result_has_exactly_one_cause_and_none_raises(
    program: str | None,
    outcome: Outcome,
    status: int,
    streams: tuple[str, str, str],
    truncated: bool,
    kind: Any,
    checks: tuple[Checks, Checks],
) -> None:
    ran = Execution(
        outcome=outcome,
        status=status if outcome == "exited" else None,
        stdout=Output(head=streams[0], bytes=9),
        stderr=Output(head=streams[1], tail=streams[2], bytes=9, truncated=truncated),
        reason="",
    )
    one = result(text=program, execution=ran, type=kind, original=checks[0], strict=checks[1])
    found = find(one)
    assert set(found) == {rule for rule in RULES if verdict(one, rule).passed is False}
    assert found == find(one)
    for finding in found.values():
        assert finding.cause in CAUSES
        assert finding.paper_class in (None, *PAPER_CLASSES)
        assert len(finding.evidence) <= 300
