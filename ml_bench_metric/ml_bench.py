# `evaluate.load` copies this file and reads its imports line by line: one module a line, no comment behind it, and
# nothing of this package above the functions, since the copy must load where only `evaluate` is installed.
"""Pass@k of ML-Bench as an `evaluate` module: a thin face over `ml_bench_metric.compute`."""

from typing import Any, Literal

import datasets
import evaluate

_DESCRIPTION = """
Pass@k of ML-Bench: every candidate, a bash or Python program that uses a machine-learning repository, is executed in a
fresh container of that repository's environment. Needs a Docker engine and the package ml-bench.
"""

_CITATION = """
@article{tang2023mlbench,
  title={ML-Bench: Evaluating Large Language Models and Agents for Machine Learning Tasks on Repository-Level Code},
  author={Tang, Xiangru and others},
  journal={arXiv preprint arXiv:2311.09835},
  year={2023}
}
"""

_INPUTS = """
Args:
    predictions: per task a list of candidates, each a string. Of split A, for agents, a candidate is the text of
        `run.sh`, or a folder that has one and whose files go into the task's folder: `{"folder": path}` or a `Path`.
    references: per task its `task_id`, or its row of the data set as a dict.
    k: values of k; one that is larger than a task's number of candidates is absent from the result.
    rule: `original` (the paper's: still running at the limit passes) or `strict`.
    estimator: `unbiased`, or `ordered` (the paper's: one of the first k passes).
    extract: `auto` takes the program out of a model's text, `none` takes the text as the program.
    num_workers: candidates at a time; by default as many as the machine has CPUs and memory for.
    timeout: time limit per candidate in seconds; by default the original judge's (10 s, few exceptions), and
        120 s for a `run.sh`.
    image: a Docker image that runs everything; by default those that `ml-bench images build` made.
    tasks: where a `task_id` is looked up: `sample`, a folder, a file or a Hub data set; by default upstream's.
    split: in which split of it. With `A` candidates are scripts, run as `bash run.sh` in the task's folder. Rule
        `original` looks at the execution alone, `strict` wants every argument of the task to be used too.
    skip_checks: score though nobody has looked whether this machine is fit for it: by default two small programs are
        tried out first, which takes a second, and a machine that loses their exit status or CPU time is refused.
Returns:
    dict: `pass@<k>` (float, 0 to 1) for each k that is defined; `intervals` (95 % bootstrap over tasks) and `bounds`
    (all candidates that the sandbox failed count as failed, or as passed); `tasks`, `candidates` (n), `passed` (c),
    `missing_predictions`, `environment_errors`; `ceiling` (share of references that pass the static checks);
    `executed_ceiling` (`passed`, `flaky`, `tasks`, `not_validated`, `share` of the references that were executed in
    these images with these limits; None where nothing is known); `assets` (executions by the weights and data of their
    image); `checks_skipped` (as it was given);
    `repositories` and `types` with the same numbers each; `details` (`task_id` -> a dict per candidate).
Raises:
    ValueError: an argument or a row cannot be used; it is named, and nothing was executed.
    RuntimeError: no engine answers, no image is there, or this machine is not fit; the message says what to do.
Examples:
    Two tasks of the sample (`ml-bench images build sample`), two candidates each:

    >>> import evaluate
    >>> import ml_bench_metric
    >>> metric = evaluate.load(ml_bench_metric.path())
    >>> command = "python train.py --dataset spiral --epochs 25 --lr"
    >>> program = "from tinytext.tokens import ngrams; print(ngrams('Rain and wind over the hills', longest=3))"
    >>> predictions = [[f"{command} 0.002", f"{command} 0.0025"], [program, "I cannot run this."]]
    >>> references = ["tiny-gan/1", "tiny-text/31"]
    >>> results = metric.compute(predictions=predictions, references=references, k=[1, 2, 5], tasks="sample")
    >>> results["pass@1"], results["pass@2"], "pass@5" in results
    (0.75, 1.0, False)
    >>> results["candidates"], results["passed"]
    (4, 3)

    The strict rule compares numbers as numbers, so that 0.0025 is not 0.002:

    >>> results = metric.compute(
    ...     predictions=predictions, references=references, k=[1, 2], tasks="sample", rule="strict"
    ... )
    >>> results["pass@1"], results["pass@2"]
    (0.5, 1.0)
    >>> [detail["reason"] for detail in results["details"]["tiny-gan/1"]]
    ['exit status 0', 'arguments missing: lr=0.002']

    Rows of the data set are references too, and a task without a candidate counts as a failure:

    >>> from ml_bench_metric.tasks import load_tasks
    >>> row = load_tasks("sample", "L").by_id["tiny-gan/3"].model_dump()
    >>> answer = "Run this: ```bash\\npython train.py --dataset grid --loss lsgan --quiet\\n```"
    >>> results = metric.compute(predictions=[[answer], []], references=[row, "tiny-gan/4"], k=[1], tasks="sample")
    >>> results["pass@1"], results["missing"]
    (0.5, ['tiny-gan/4'])
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class MLBench(evaluate.Metric):
    """The metric; `evaluate` shows the texts above as its documentation."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {"predictions": datasets.Sequence(datasets.Value("string")), "references": datasets.Value("string")}
            ),
            homepage="https://arxiv.org/abs/2311.09835",
        )

    def add(self, *, prediction: Any = None, reference: Any = None, **unknown: Any) -> None:
        """Add one task's candidates."""
        self.add_batch(predictions=[prediction], references=[reference], **unknown)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **unknown: Any) -> None:
        """Add the candidates of some tasks. Every row is checked, since `evaluate` looks at the first one alone."""
        if unknown:
            raise ValueError(f"unknown input {sorted(unknown)[0]!r}; the inputs are predictions and references")
        if predictions is None or references is None:
            raise ValueError("give predictions and references")
        if len(predictions) != len(references):
            raise ValueError(
                f"there are {len(predictions)} predictions and {len(references)} references; give one for each"
            )
        checked_row = _judge().checked_row
        rows = [checked_row(*pair, row) for row, pair in enumerate(zip(predictions, references, strict=True))]
        super().add_batch(predictions=[texts for texts, _ in rows], references=[reference for _, reference in rows])

    def _compute(
        self,
        predictions: list[list[str]],
        references: list[str],
        k: Any = (1, 2, 5),
        rule: Literal["original", "strict"] = "original",
        estimator: Literal["unbiased", "ordered"] = "unbiased",
        extract: Literal["auto", "none"] = "auto",
        num_workers: int | None = None,
        timeout: float | None = None,
        image: str | None = None,
        tasks: str | None = None,
        split: str = "L",
        skip_checks: bool = False,
    ) -> dict[str, Any]:
        result: dict[str, Any] = _judge().compute(
            predictions,
            references,
            k=k,
            rule=rule,
            estimator=estimator,
            extract=extract,
            num_workers=num_workers,
            timeout=timeout,
            image=image,
            tasks=tasks,
            split=split,
            skip_checks=skip_checks,
        )
        return result


def _judge() -> Any:
    try:
        import ml_bench_metric.compute
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("ml_bench_metric", "ml_bench_dataset"):
            raise
        raise ImportError("this metric executes candidates with the package ml-bench: pip install ml-bench") from error
    return ml_bench_metric.compute
