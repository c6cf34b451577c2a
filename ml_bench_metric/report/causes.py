"""Why candidates failed, in words, and as lines of the terminal's view of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ml_bench_metric.causes import FailureCause, Finding, PaperClass
from ml_bench_metric.summary import Score, Summary

WORDS: Mapping[FailureCause, str] = {
    "refusal_or_empty": "refusal or empty",
    "wrong_language": "wrong language",
    "syntax_error": "syntax error",
    "placeholder": "placeholder left",
    "wrong_argument": "wrong argument",
    "argument_missing": "argument missing",
    "missing_module": "missing module",
    "missing_attribute": "missing attribute",
    "undefined_name": "undefined name",
    "missing_file": "missing file",
    "out_of_memory": "out of memory",
    "disk_limit": "disk limit",
    "output_limit": "output limit",
    "needs_gpu": "needs a GPU",
    "needs_network": "needs the network",
    "crash_in_repository": "crash in the repository",
    "crash_in_program": "crash in the program",
    "waits": "waits without computing",
    "other": "other",
}

PAPER_WORDS: Mapping[PaperClass, str] = {
    "E1": "hallucination",
    "E2": "lack of knowledge",
    "E3": "knowledge manipulation",
    "E4": "syntax",
    "E5": "operational",
}

_SHOWN_CAUSES = 3
"""How many causes a repository's line names; `summary.json` has them all."""


def in_words(finding: Finding) -> str:
    """Return why a candidate failed, with the paper's class and the line that shows it; not yet safe to show."""
    of_paper = f" ({finding.paper_class} {PAPER_WORDS[finding.paper_class]})" if finding.paper_class else ""
    return f"{WORDS[finding.cause]}{of_paper}: {finding.evidence}"


def lines(summary: Summary) -> Iterator[str]:
    """Yield why the candidates failed under the rule that leads: all of them, and those of each repository.

    The most frequent causes come first. Nothing is yielded where none failed, or an older version made the summary.
    """
    overall = summary.overall.scores[summary.rule]
    if not overall.causes:
        return
    yield f"Causes of failures, rule {summary.rule}: {_counts(overall)}"
    classes, failed = overall.paper_classes, sum(overall.causes.values())
    named = [f"{name} {PAPER_WORDS[name]} {count}" for name, count in classes.items()]
    yield "Of the paper's classes: " + ", ".join((*named, f"no class {failed - sum(classes.values())}"))
    if len(summary.repositories) > 1:
        for name, group in summary.repositories.items():
            if group.scores[summary.rule].causes:
                yield f"  {name}: {_counts(group.scores[summary.rule], _SHOWN_CAUSES)}"


def _counts(score: Score, shown: int | None = None) -> str:
    counts = sorted(score.causes.items(), key=lambda pair: -pair[1])
    rest = sum(count for _, count in counts[shown:]) if shown else 0
    named = [f"{WORDS[cause]} {count}" for cause, count in counts[:shown]]
    return ", ".join(named + ([f"others {rest}"] if rest else []))
