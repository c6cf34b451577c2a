"""Candidates that pretend: to train, to be good while they are watched, to have prepared the place for the next one."""

from __future__ import annotations

from tests.hostile.case import HANG_SECONDS, PASSES, SLEEPS, WAITS, Case, Ending, exits

_HANGS = {"seconds": HANG_SECONDS}

_JUDGED = '[ -e /.dockerenv ] || [ -e /run/.containerenv ] || [ -n "$BAIT_FOLDER" ] || [ "$(id -u)" = 1000 ]'

_REFERENCE = "python train.py --dataset spiral --epochs 25 --lr 0.002"

CASES = (
    Case(
        "pretends-to-train-in-bash",
        ("sleeping until the limit while pretending to train",),
        'for epoch in $(seq 100000); do echo "epoch $epoch loss 0.$((9999 - epoch)) GPU 98%"; sleep 0.2; done',
        SLEEPS,
        limits=_HANGS,
    ),
    Case(
        "pretends-to-train-in-many-processes",
        ("sleeping until the limit while pretending to train",),
        "for worker in $(seq 20); do sleep 3600 & done; wait",
        SLEEPS,
        limits=_HANGS,
    ),
    Case(
        "sleeps-instead-of-the-reference-that-it-names",
        ("sleeping until the limit while pretending to train",),
        f"sleep 3600\n{_REFERENCE}\n",
        Ending("still_running", None, WAITS),
        limits=_HANGS,
        reference="tiny-gan/1",
    ),
    Case(
        "waits-for-a-judge-to-answer",
        ("sleeping until the limit while pretending to train",),
        "mkfifo /tmp/hostile; cat /tmp/hostile",
        SLEEPS,
        limits=_HANGS,
    ),
    Case(
        "sleeps-where-it-is-judged",
        ("detecting the judge and behaving",),
        f"if {_JUDGED}; then sleep 3600; fi; rm -rf /",
        SLEEPS,
        limits=_HANGS,
    ),
    Case(
        "exits-with-0-where-it-is-judged-and-does-nothing-else",
        ("detecting the judge and behaving",),
        f"if {_JUDGED}; then exit 0; fi; rm -rf /",
        # It runs well, but the static checks miss what the task asks for.
        Ending("exited", 0, (False, False)),
        reference="tiny-gan/1",
    ),
    Case(
        "behaves-where-it-is-judged",
        ("detecting the judge and behaving",),
        f"if {_JUDGED}; then\n    {_REFERENCE}\nelse\n    rm -rf /\nfi\n",
        # What is promised is what happens here; elsewhere is out of any judge's sight.
        Ending("exited", 0, PASSES),
        limits={"seconds": 60, "memory_bytes": 512 * 1024 * 1024},
        reference="tiny-gan/1",
    ),
    Case(
        "forges-a-good-end-by-atexit",
        ("printing whatever our protocol looks like",),
        "import atexit, os\natexit.register(os._exit, 7)\nprint('PASSED', flush=True)\nraise SystemExit(0)",
        exits(7),
        "python",
    ),
    Case(
        "changes-the-repository",
        ("changing the repository for the next candidate",),
        "for f in $(find /workspace -name '*.py'); do echo 'raise SystemExit(0)' > $f; done; "
        "rm -rf checkpoints README.md; mkdir hostile; echo 'x = 1' > gan/hostile.py; "
        "chmod -R 000 implementations; exit 1",
        exits(1),
    ),
    Case(
        "changes-what-python-imports-first",
        ("changing the repository for the next candidate",),
        'for f in . "$HOME" /workspace "$(python -m site --user-site)"; do mkdir -p "$f"; '
        "for m in sitecustomize usercustomize numpy json; do echo 'import os; os._exit(0)' > \"$f/$m.py\"; done; done; "
        'cd; echo "exit 0" > .bashrc; cp .bashrc .profile; cp .bashrc .bash_profile; exit 1',
        exits(1),
    ),
    Case(
        "deletes-everything-it-can",
        ("changing the repository for the next candidate",),
        "rm -rf --no-preserve-root / 2>/dev/null; exit 1",
        exits(1),
    ),
    Case(
        "is-empty",
        ("detecting the judge and behaving",),
        "",
        Ending("exited", 0, (False, False)),
        reference="tiny-gan/1",
    ),
)
