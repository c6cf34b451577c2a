"""From what an execution printed to the cause: each kind of message, and what it must not be taken for."""

from __future__ import annotations

import pytest

from ml_bench_metric.causes import FailureCause, PaperClass, find
from ml_bench_metric.results import Result
from ml_bench_metric.sandbox.execution import Execution
from tests.cause_builders import BASH_FILE, PYTHON_FILE, failed, output, python_failed, traceback
from tests.result_builders import result

LIBRARY = "/usr/local/lib/python3.11/dist-packages/torch/nn.py"
REPOSITORY = "/workspace/tiny/tiny/net.py"
COMMAND = "python train.py --model big --data faces"
MISSING = ("argument_missing", "E3")
PROGRAM = "import tiny.net\nnet = tiny.net.Net(kind='big', size=3)\nnet.fit(3)"


def found(of: Result) -> tuple[FailureCause, PaperClass | None]:
    finding = find(of)["strict"]
    return finding.cause, finding.paper_class


@pytest.mark.parametrize(
    ("line", "cause", "paper_class"),
    [
        ("train.py: error: unrecognized arguments: --model big", "wrong_argument", "E1"),
        ("train.py: error: argument --model: invalid choice: 'big' (choose from 'a')", "wrong_argument", "E3"),
        ("train.py: error: argument --n: expected one argument", "wrong_argument", "E3"),
        ("train.py fit: error: argument --n: invalid int value: 'x'", "wrong_argument", "E3"),
        ("train.py: error: the following arguments are required: --out", "argument_missing", "E3"),
        ("FATAL Flags parsing error: Unknown command line flag 'modle'. Did you mean: model ?", "wrong_argument", "E1"),
        ("flag --out=None: Flag --out must have a value other than None.", "argument_missing", "E3"),
        ("Error: No such option: --model", "wrong_argument", "E1"),
        ("Error: Missing option '--out'.", "argument_missing", "E3"),
        (f"{BASH_FILE}: line 1: syntax error near unexpected token `('", "syntax_error", "E4"),
        (f"{BASH_FILE}: line 4: unexpected EOF while looking for matching `\"'", "syntax_error", "E4"),
        ("bash: -c: line 2: syntax error: unexpected end of file", "syntax_error", "E4"),
        (f"{BASH_FILE}: line 2: --data: command not found", "syntax_error", "E4"),
        (f"{BASH_FILE}: line 2: --out=/tmp/x/: No such file or directory", "syntax_error", "E4"),
        (
            "python: can't open file '/w/tiny/train.py': [Errno 2] No such file",
            "missing_file",
            "E1",
        ),
        (
            "python: can't open file '/w/tiny/other.py': [Errno 2] No such file",
            "missing_file",
            None,
        ),
        (f"{BASH_FILE}: line 1: accelerate: command not found", "missing_file", None),
        (f"{BASH_FILE}: line 1: cd: tools: No such file or directory", "missing_file", None),
        ("cat: list.txt: No such file or directory", "missing_file", None),
        ("unzip:  cannot find or open faces.zip, faces.zip.zip or faces.zip.ZIP.", "missing_file", None),
        ("/usr/bin/python: No module named accelerate.run", "missing_module", None),
        ("bash: line 1: nvidia-smi: command not found", "needs_gpu", None),
        ("curl: (6) Could not resolve host: example.org", "needs_network", None),
        ("ERROR: Could not find a version that satisfies the requirement tiny", "needs_network", None),
        ("cp: error writing 'x': No space left on device", "disk_limit", None),
        ("something quite different", "other", None),
    ],
)
def test_what_shells_and_parsers_complain_of(line: str, cause: FailureCause, paper_class: PaperClass | None) -> None:
    assert found(failed(COMMAND, f"usage: train.py [-h]\n{line}\n")) == (cause, paper_class)


@pytest.mark.parametrize(
    ("error", "frames", "cause", "paper_class"),
    [
        ("NameError: name 'net' is not defined", ("p",), "undefined_name", None),
        ("NameError: name 'x' is not defined", ("p", "r"), "crash_in_repository", None),
        ("ModuleNotFoundError: No module named 'apex'", ("p", "r"), "missing_module", None),
        ("ModuleNotFoundError: No module named 'tiny.net'", ("p",), "missing_module", "E1"),
        (
            "ImportError: Big requires the SentencePiece library",
            ("p", "l"),
            "missing_module",
            None,
        ),
        ("ImportError: cannot import name 'Net' from 'tiny.net'", ("p",), "missing_attribute", "E1"),
        ("ImportError: cannot import name 'old' from 'torch'", ("p", "r"), "crash_in_repository", None),
        ("AttributeError: 'Net' object has no attribute 'fit'", ("p",), "missing_attribute", "E1"),
        ("AttributeError: 'tuple' object has no attribute 'fit'", ("p",), "missing_attribute", None),
        ("AttributeError: module 'numpy' has no attribute 'int'", ("p", "r"), "crash_in_repository", None),
        ("AttributeError: 'NoneType' object has no attribute 'fit'", ("p",), "crash_in_program", None),
        ("TypeError: Net.__init__() got an unexpected keyword argument 'kind'", ("p",), "wrong_argument", "E1"),
        ("TypeError: Net.fit() takes 1 positional argument but 2 were given", ("p",), "wrong_argument", "E3"),
        ("TypeError: Net.__init__() missing 1 required positional argument: 'dim'", ("p",), "argument_missing", "E3"),
        ("TypeError: f() got an unexpected keyword argument 'dtype'", ("p", "r"), "crash_in_repository", None),
        ("TypeError: unsupported operand type(s) for +: 'int' and 'str'", ("p",), "crash_in_program", None),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'faces.bin'", ("p", "l"), "missing_file", None),
        ("a.errors.NotFoundError: ./faces; No such file or directory", ("p", "r", "l"), "missing_file", None),
        ("OSError: model file faces.bin does not exist", ("p", "r"), "missing_file", None),
        ("a.b.IllegalFlagValueError: flag --o=None: Flag --o must have a value other than None.", ("l",), *MISSING),
        ("a.b.UnrecognizedFlagError: Unknown command line flag 'o'", ("l",), "wrong_argument", "E1"),
        ("SyntaxError: invalid syntax", ("r",), "crash_in_repository", None),
        ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", ("p", "l"), "out_of_memory", None),
        ("MemoryError", ("p",), "out_of_memory", None),
        ("RuntimeError: Found no NVIDIA driver on your system.", ("p", "l"), "needs_gpu", None),
        ("AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'", ("p", "l"), "needs_gpu", None),
        (
            "OSError: We couldn't connect to 'https://example.org'",
            ("p", "l"),
            "needs_network",
            None,
        ),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", ("p", "l"), "crash_in_program", None),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", ("l",), "other", None),
    ],
)
def test_what_exceptions_mean(
    error: str, frames: tuple[str, ...], cause: FailureCause, paper_class: PaperClass | None
) -> None:
    files = {"p": PYTHON_FILE, "r": REPOSITORY, "l": LIBRARY}
    stderr = traceback(error, *((files[frame], "f(x)") for frame in frames))
    assert found(python_failed(PROGRAM, stderr)) == (cause, paper_class)


@pytest.mark.parametrize(
    ("error", "source", "refused"),
    [
        ("RuntimeError: no configuration for kind net_big", "raise RuntimeError(message)", True),
        ("RuntimeError: no configuration for kind net_big", "load(kind)", False),
        ("RuntimeError: no configuration for kind other_one", "raise RuntimeError(message)", False),
        ("ValueError: `--model` must not be used without `--kind`", "check(model,", True),
        ("ValueError: give `--kind`", "check(model,", False),
        ("KeyError: 'net_big'", "kinds[name]", True),
        ("KeyError: 'weight'", "state[name]", False),
        ("AssertionError: unknown kind 'net_big'", "kind in KINDS", True),
    ],
)
def test_a_value_that_the_repository_refuses_on_purpose_is_a_wrong_argument(
    error: str, source: str, refused: bool
) -> None:
    stderr = traceback(error, ("train.py", "main()"), (REPOSITORY, source))
    wanted = ("wrong_argument", "E3") if refused else ("crash_in_repository", None)
    assert found(failed("python train.py --model net_big", stderr)) == wanted


def test_the_last_complaint_counts_since_the_status_is_that_of_the_last_command() -> None:
    stderr = "cat: a.txt: No such file or directory\nt.py: error: unrecognized arguments: -x\n"
    assert found(failed("cat a.txt\npython t.py -x", stderr)) == ("wrong_argument", "E1")


def test_warnings_are_no_causes() -> None:
    stderr = (
        "UserWarning: CUDA is not available, using the CPU\n"
        "W tensorflow: Could not load 'libcuda.so.1'; dlerror: libcuda.so.1: No such file or directory\n"
    )
    assert found(failed(COMMAND, stderr)) == ("other", None)


def test_standard_output_counts_where_standard_error_says_nothing() -> None:
    assert found(failed(COMMAND, "10%\n", stdout="t.py: error: unrecognized arguments: -x\n"))[0] == "wrong_argument"


def test_what_a_candidate_that_is_still_running_has_printed_is_no_cause() -> None:
    waits = Execution(outcome="still_running", cpu_seconds=0.1, stderr=output("ValueError: handled\n"))
    assert found(result(execution=waits, limit_seconds=10.0)) == ("waits", None)


def test_a_candidate_killed_by_a_signal_is_judged_by_its_output() -> None:
    killed = Execution(outcome="killed", status=139, stderr=output("train.py: error: unrecognized arguments: -x\n"))
    assert found(result(execution=killed)) == ("wrong_argument", "E1")
    assert found(result(execution=Execution(outcome="killed", status=139))) == ("other", None)
