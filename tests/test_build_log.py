"""A build's errors say what failed, with its last words and the way out, and what runs on the host is ended in time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from docker.errors import APIError

from ml_bench_metric.environments.build_log import BuildError, BuildLog


def test_an_error_ends_with_the_last_lines_of_its_own_step(build_log: BuildLog) -> None:
    with build_log.step("earlier"):
        build_log.write(b"not this\n")
    with build_log.step("later"):
        build_log.write(b"".join(b"line %d\n" % number for number in range(30)) + b"1 %\r100 %\n\xff\n")
    text = str(build_log.error("later", "ended with status 1"))
    assert text.startswith("x: later: ended with status 1.")
    assert str(build_log.path) in text
    assert text.splitlines()[1:4] == ["    line 13", "    line 14", "    line 15"]
    assert text.endswith("    1 %\n    100 %\n    \N{REPLACEMENT CHARACTER}")
    assert "not this" not in text


# What pip 23, apt, the engine's API and its registry say in such cases.
@pytest.mark.parametrize(
    ("said", "way_out"),
    [
        ("OSError: [Errno 28] No space left on device", "ml-bench images prune"),
        ("Error processing tar file(exit status 1): write /x: no space left on device", "ml-bench images prune"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have", "requirements.txt"),
        ("toomanyrequests: You have reached your pull rate limit.", "docker login"),
        ("ERROR: HTTP error 429 while getting https://x\n429 Client Error: Too Many Requests for url", "wait"),
        ("Temporary failure in name resolution", "pip config list"),
        ("E: Could not resolve host: deb.debian.org", "pip config list"),
        ("W: Failed to fetch http://deb.debian.org/x  Temporary failure resolving 'deb.debian.org'", "pip config list"),
        ("E: Failed to fetch http://deb.debian.org/x  Unable to connect to deb.debian.org:http:", "pip config list"),
        ("fatal: unable to access 'https://x/': Failed to connect to x port 443 after 3 ms", "pip config list"),
        ("dial tcp 127.0.0.1:1: connect: connection refused", "pip config list"),
        ("Get https://registry-1.docker.io/v2/: net/http: TLS handshake timeout", "pip config list"),
        ("dial tcp: lookup registry-1.docker.io: i/o timeout", "pip config list"),
        ("the registry said nothing for 20 s", "pip config list"),
    ],
)
def test_what_fails_outside_is_told_with_the_way_out(build_log: BuildLog, said: str, way_out: str) -> None:
    with build_log.step("pip"):
        build_log.write(f"{said}\n".encode())
    as_output = str(build_log.error("pip", "ended with status 1"))
    as_reason = str(build_log.error("another", f"the engine failed: {said}".replace("\n", " ")))
    for text in (as_output, as_reason):
        assert way_out in text.splitlines()[0]


def test_no_way_out_is_offered_for_what_it_does_not_help(build_log: BuildLog) -> None:
    with build_log.step("earlier"):
        build_log.write(b"No space left on device\n")
    with build_log.step("pip"):
        build_log.write(
            b"Downloading numpy-1.26.4.tar.gz (42.9 MB)\nERROR: No matching distribution found for x==4.29\n"
        )
    first_line = str(build_log.error("pip", "ended with status 1")).splitlines()[0]
    assert first_line == f"x: pip: ended with status 1. The log is {build_log.path}; it ends with:"


def test_a_program_of_the_host_is_stopped_with_its_children(build_log: BuildLog, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = f"trap '' TERM INT; (sleep 1; touch {mark}) & sleep 60"
    with pytest.raises(BuildError, match="not finished after"):
        build_log.run(["sh", "-c", script], seconds=0.2)
    time.sleep(1.2)
    assert not mark.exists()


def test_a_log_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "x.log").mkdir()
    with pytest.raises(BuildError, match=r"x\.log: Is a directory; .*XDG_CACHE_HOME"):
        BuildLog(tmp_path / "x.log", lambda line: None, "x")


def test_a_program_that_is_not_installed_is_named(build_log: BuildLog) -> None:
    with pytest.raises(BuildError, match="no-such-program is not installed"):
        build_log.run(["no-such-program"], seconds=1)


def test_a_build_that_is_stopped_ends_the_step_that_runs_and_begins_no_other(tmp_path: Path) -> None:
    stop = threading.Event()
    lines: list[str] = []
    with BuildLog(tmp_path / "x.log", lines.append, "x", stop) as log:
        threading.Timer(0.1, stop.set).start()
        began = time.monotonic()
        with pytest.raises(BuildError, match="x: the build was stopped"):
            log.run(["sleep", "60"], seconds=60)
        assert time.monotonic() - began < 30
        with pytest.raises(BuildError, match="x: the build was stopped"), log.step("next"):
            pytest.fail("it began")
    assert lines == []


def test_what_the_engine_refuses_within_a_step_is_told_as_the_steps_failure(build_log: BuildLog) -> None:
    with pytest.raises(BuildError, match="x: save: the engine failed: conflict"), build_log.step("save"):
        raise APIError("conflict")
