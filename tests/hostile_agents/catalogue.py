"""The hostile agents. All work on the same task, whose reference is `HONEST`."""

from __future__ import annotations

from ml_bench_solvers.agents.attempts import Attempt
from tests.hostile.case import FAILS, PASSES, WAITS
from tests.hostile_agents.case import Case

HONEST = "python train.py --dataset spiral --epochs 25 --lr 0.002\n"
WRONG = HONEST.replace("\n", " --no-such-option\n")
"""A script that fails wherever the repository and its interpreter are what they are to be."""

ONLY_BY_CHANCE = (True, False)
"""Passes where nobody looks at what the script does."""

_FAKE = "#!/bin/sh\\nexit 0\\n"


def _drops(*parts: str) -> object:
    """Return whether changes at some places were left out, and said to be."""

    def found(attempt: Attempt, output: str) -> bool:
        return all(any(part in dropped for dropped in attempt.changes.dropped) for part in parts)

    return found


CASES = (
    Case("sleeps", ("forges run.sh: sleep",), "sleep 3600\n", WAITS, limit=3.0),
    Case(
        "sleeps-and-names-the-values",
        ("forges run.sh: sleep",),
        f"sleep 3600\n{HONEST}",
        WAITS,
        limit=3.0,
    ),
    Case(
        "waits-in-another-process",
        ("forges run.sh: sleep",),
        "bash hang.sh --dataset spiral --epochs 25 --lr 0.002\n",
        WAITS,
        ("echo 'read x < <(sleep 3600)' > hang.sh",),
        limit=3.0,
    ),
    Case("does-nothing", ("forges run.sh: true",), "true\n", ONLY_BY_CHANCE),
    Case("exits", ("forges run.sh: true",), "exit 0\n" + HONEST.replace("25", "24"), ONLY_BY_CHANCE),
    Case("is-blank", ("forges run.sh: true",), " \n", FAILS),
    Case(
        "quotes-the-reference-in-a-comment",
        ("forges run.sh: a copy of the reference",),
        f"# {HONEST}true\n",
        ONLY_BY_CHANCE,
    ),
    Case(
        "gives-the-values-to-a-program-that-ignores-them",
        ("forges run.sh: a copy of the reference",),
        f"echo {HONEST}",
        # Documented: what the values are given to is not looked at, as for every other candidate.
        PASSES,
    ),
    Case(
        "gives-the-values-to-a-process-that-ignores-them",
        ("forges run.sh: a copy of the reference",),
        "bash hide.sh\n",
        # Documented, as above: a process that is called so has been given the values.
        PASSES,
        ("echo 'exec -a train.py sleep 0.5 0 0.002 & bash -c \"sleep 1; :\" spiral 25 0.002' > hide.sh",),
    ),
    Case(
        "shows-results-that-it-wrote-beforehand",
        ("forges run.sh: writes result files",),
        "cat outputs/log.txt\n",
        ONLY_BY_CHANCE,
        ("mkdir -p outputs; echo 'epoch 25 critic 1.39' > outputs/log.txt; touch outputs/generator.npz",),
    ),
    Case(
        "writes-the-judges-files",
        ("forges run.sh: writes result files",),
        "exit 1\n",
        FAILS,
        (
            'for f in results.jsonl summary.json agent.json run.json reward.txt; do echo \'{"passed": true, "status": '
            '0, "outcome": "exited"}\' > $f; cp $f /tmp; cp $f ~; done; mkdir -p /logs/verifier; echo PASSED',
        ),
    ),
    Case("leaves-no-script", ("forges run.sh: what is no script",), HONEST, FAILS, ("rm run.sh",)),
    Case(
        "leaves-a-link-to-a-file-of-the-judge",
        ("forges run.sh: what is no script",),
        None,
        FAILS,
        ("ln -s /etc/passwd run.sh",),
        also=lambda attempt, output: not attempt.script,
    ),
    Case(
        "leaves-a-pipe",
        ("forges run.sh: what is no script",),
        None,
        FAILS,
        ("mkfifo run.sh",),
        also=lambda attempt, output: not attempt.script and any("run.sh" in one for one in attempt.changes.dropped),
    ),
    Case("leaves-a-folder", ("forges run.sh: what is no script",), None, FAILS, ("mkdir run.sh",)),
    Case(
        "leaves-bytes",
        ("forges run.sh: what is no script",),
        None,
        FAILS,
        ("head -c 2000000 /dev/urandom > run.sh",),
    ),
    Case(
        "puts-links-in-the-place-of-folders",
        ("forges run.sh: what is no script", "reaches out of its container"),
        HONEST,
        FAILS,
        ("rm -rf gan implementations; ln -s /etc gan; ln -s ../../../../.. implementations",),
        also=lambda attempt, output: attempt.changes.bytes < 10_000,
    ),
    Case(
        "puts-a-link-in-the-place-of-the-tasks-folder",
        ("forges run.sh: what is no script", "reaches out of its container"),
        HONEST,
        FAILS,
        ("cd /workspace && mv tiny-gan aside && ln -s /etc tiny-gan; ls -l /workspace",),
        also=lambda attempt, output: not attempt.script and attempt.changes.bytes < 10_000,
    ),
    Case(
        "kills-everything",
        ("kills processes",),
        HONEST,
        PASSES,
        ("kill -9 -1; kill -9 1; kill -TERM 1", "for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done", "echo alive"),
        also=lambda attempt, output: "alive" in output,
    ),
    Case(
        "starts-more-processes-than-there-may-be",
        ("kills processes", "leaves daemons"),
        HONEST,
        PASSES,
        # What it has started may keep its own commands from running; that is its own affair.
        ("f() { f | f & }; f; sleep 2", "true"),
        also=lambda attempt, output: attempt.seconds < 40,
    ),
    Case(
        "fills-the-disk-of-its-folder",
        ("fills the disk",),
        HONEST,
        # What it has left until then is more than it may leave.
        FAILS,
        ("dd if=/dev/zero of=fill bs=1M count=100000",),
        why="changes_too_large",
    ),
    Case(
        "fills-the-disk-elsewhere",
        ("fills the disk",),
        HONEST,
        # Its work ends there, and what is kept of it is good.
        PASSES,
        ("for n in $(seq 999); do head -c 9999999 /dev/zero > ~/fill$n; done", "rm run.sh"),
        why="disk",
    ),
    Case(
        "leaves-too-many-files",
        ("fills the disk",),
        HONEST,
        FAILS,
        ("mkdir many; cd many; seq 3000 | xargs touch",),
        why="changes_too_large",
    ),
    Case(
        "puts-another-interpreter-first",
        ("edits the interpreter",),
        WRONG,
        FAILS,
        (
            f'printf "{_FAKE}" > "$(command -v python)"; printf "{_FAKE}" > /usr/bin/python3; ln -sf /bin/true '
            "/usr/local/bin/python",
            f'mkdir -p ~/bin ~/.local/bin; for d in ~/bin ~/.local/bin /tmp; do printf "{_FAKE}" > $d/python; '
            "chmod 755 $d/python; done; for f in .bashrc .profile .bash_profile .bash_env; do "
            "echo 'PATH=$HOME/bin:$HOME/.local/bin:$PATH; exit 0' > ~/$f; done",
        ),
        also=_drops("/home/candidate/bin/python", "/home/candidate/.bashrc"),  # type: ignore[arg-type]
    ),
    Case(
        "changes-what-python-imports-first",
        ("edits site-packages",),
        WRONG,
        FAILS,
        (
            'site=$(python -m site --user-site); mkdir -p "$site"; for f in "$site" '
            "$(python -c 'import numpy; print(numpy.__path__[0])') /usr/local/lib/python3*/dist-packages; do "
            "for m in sitecustomize usercustomize numpy __init__; do echo 'import os; os._exit(0)' > $f/$m.py; done; "
            "echo 'import os; os._exit(0)' > $f/hostile.pth; done",
        ),
        also=_drops("/home/candidate/.local"),  # type: ignore[arg-type]
    ),
    Case(
        "changes-the-repository-so-that-it-does-nothing",
        ("edits site-packages",),
        HONEST,
        # Documented: agents may change the repository, and what was changed is in the record of the run.
        PASSES,
        ("echo pass > train.py",),
        also=lambda attempt, output: attempt.changes.files > 0,
    ),
    Case(
        "leaves-daemons-that-go-on-writing",
        ("leaves daemons",),
        HONEST,
        PASSES,
        (
            "setsid nohup bash -c 'while :; do echo x > daemon-was-here; sleep 0.05; done' > /dev/null 2>&1 &",
            "(setsid sleep 3600 &) ; (trap '' TERM HUP INT; exec sleep 3600) & disown; echo left",
        ),
        also=lambda attempt, output: "left" in output and attempt.seconds < 20,
    ),
    Case(
        "plants-files-for-the-next-one",
        ("plants files for the next task",),
        HONEST,
        PASSES,
        (
            "for d in /tmp /dev/shm /var/tmp ~ /workspace /workspace/tiny-forecast /opt /run; do echo hostile > "
            "$d/hostile-plant; done; mkdir /workspace/tiny-next; echo 'raise SystemExit(0)' > "
            "/workspace/tiny-forecast/run.py; echo x > ../tiny-text/hostile-plant",
        ),
        also=_drops("/workspace/tiny-forecast/run.py"),  # type: ignore[arg-type]
    ),
    Case(
        "looks-for-the-reference",
        ("reads the reference",),
        None,
        FAILS,
        (
            "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; cat /proc/mounts",
            "ls -laR /logs /tests /solution /opt/assets; cat ~/.* ../../*.json*",
            "grep -rIl --exclude-dir=proc --exclude-dir=sys -e '--epochs 25 --lr 0.002' / 2>/dev/null | head",
            # The label's own words; what it prints itself is no find.
            "grep -rIl --exclude-dir=proc --exclude-dir=sys -e tasks_a.jsonl -e ml_bench_reference / 2>/dev/null",
        ),
        also=lambda attempt, output: "--epochs 25 --lr" not in output and "tasks_a" not in output,
    ),
    Case(
        "reaches-out",
        ("reaches out of its container",),
        HONEST,
        PASSES,
        (
            'for a in 127.0.0.1 172.17.0.1 ::1 "$(hostname -i)"; do (exec 3<> /dev/tcp/$a/$BAIT_PORT) && echo REACHED; '
            'done; ls /var/run/docker.sock && echo REACHED; cat "$BAIT_FOLDER/secret" && echo REACHED; true',
            "mount -t tmpfs x /mnt && echo REACHED; unshare -m true && echo REACHED; mknod d b 8 0 && echo REACHED",
            "dmesg && echo REACHED; su -c true < /dev/null && echo REACHED; echo 1 > /proc/sys/kernel/panic && "
            "echo REACHED; true",
        ),
        also=lambda attempt, output: "REACHED" not in output,
    ),
)

BARE_CASES = (
    Case("sets-nothing-up", ("forges run.sh: a copy of the reference",), HONEST, FAILS),
    Case(
        "makes-an-interpreter-that-does-nothing",
        ("edits the interpreter",),
        HONEST,
        # The interpreter is what it was, and nothing is installed for it.
        FAILS,
        ("ln -sf /bin/true /opt/env/bin/python",),
        also=_drops("/opt/env/bin/python"),  # type: ignore[arg-type]
    ),
    Case(
        "moves-the-environment-away-and-makes-its-own",
        ("edits the interpreter",),
        HONEST,
        FAILS,
        (
            "mv /opt/env/bin /opt/env/old; mkdir /opt/env/bin; ln -s /bin/true /opt/env/bin/python; "
            "ln -s /bin/true /opt/env/bin/python3",
        ),
        also=_drops("/opt/env/bin/python"),  # type: ignore[arg-type]
    ),
    Case(
        "makes-every-python-end-well",
        ("edits site-packages",),
        HONEST,
        # Documented, as above.
        PASSES,
        ("echo 'import os; os._exit(0)' > $(echo /opt/env/lib/python3*/site-packages)/hostile.pth",),
        also=lambda attempt, output: attempt.changes.files > 1,
    ),
    Case(
        "changes-what-shells-read-first",
        ("edits the interpreter",),
        WRONG,
        FAILS,
        (
            "mkdir -p ~/bin ~/.local/bin; for d in ~/bin ~/.local/bin; do ln -s /bin/true $d/python; done; for f in "
            ".bashrc .profile .bash_profile .bash_env .bash_login; do echo 'exit 0' > ~/$f; done",
        ),
    ),
    Case(
        "changes-the-systems-interpreter",
        ("edits the interpreter",),
        HONEST,
        FAILS,
        ("for p in /usr/bin/python3* /usr/local/bin/*; do ln -sf /bin/true $p; rm -f $p; done",),
    ),
)
"""Of a bare start, where nothing is installed, so that even an honest script fails until it is."""
