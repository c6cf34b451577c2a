"""What is installed is pinned with hashes, and a lock's layout decides nothing."""

from __future__ import annotations

import pytest

from ml_bench_metric.environments.requirements import RequirementsError, check_lock, normalised

A, B = "a" * 64, "b" * 64
LOCK = f"""\
# asked for by hand
numpy==1.26.4 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
    # via torch
torch==2.13.0+cpu --hash=sha256:{A}   # a comment behind it
x[extra-one,two]==1!2.0.post1 ; python_version < "3.12" \\
    --hash=sha256:{B}
"""


def test_a_complete_lock_is_taken() -> None:
    check_lock(LOCK)
    check_lock("")


@pytest.mark.parametrize(
    ("faulty", "said"),
    [
        ("scipy", r"line 9: 'scipy' is not pinned; write name==version"),
        (f"scipy>=1.0 --hash=sha256:{A}", r"line 9: 'scipy>=1\.0' is not pinned"),
        (f"scipy==1.* --hash=sha256:{A}", r"line 9: 'scipy==1\.\*' is not pinned"),
        (f"scipy @ https://example.org/scipy.whl --hash=sha256:{A}", "line 9: .* is not pinned"),
        (f"https://example.org/scipy.whl --hash=sha256:{A}", "line 9: .* is not pinned"),
        ("scipy==1.0", r"line 9: scipy==1\.0 has no --hash=sha256:…; lock the file with `uv pip compile"),
        ("scipy==1.0 \\\n    # nothing follows\n", r"line 9: scipy==1\.0 has no --hash"),
        (f"scipy==1.0 # --hash=sha256:{A}", r"line 9: scipy==1\.0 has no --hash"),
        ('scipy==1.0 ; python_version < "3.12"', r"line 9: scipy==1\.0 \(python_version < \"3\.12\"\) has no --hash"),
        (f"scipy==1.0 --hash=md5:{A[:32]}", r"line 9: scipy==1\.0 has no --hash"),
        (f"scipy==1.0 --hash=sha256:{A[:-1]}", r"line 9: scipy==1\.0 has no --hash"),
        (f"scipy==1.0 --hash=sha256:{A} --config-settings=x", r"line 9: scipy==1\.0 has no --hash"),
        ("-r others.txt", "line 9: '-r others.txt' is not pinned"),
        ("--index-url https://example.org/simple", "line 9: .* is not pinned"),
        ("--pre", "line 9: '' is not pinned"),
        ("-e .", "line 9: '-e .' is not pinned"),
    ],
)
def test_a_requirement_that_could_change_is_named_with_its_line(faulty: str, said: str) -> None:
    with pytest.raises(RequirementsError, match=said):
        check_lock(LOCK + faulty)


def test_comments_and_layout_do_not_count() -> None:
    plain = (
        f"numpy==1.26.4 --hash=sha256:{A} --hash=sha256:{B}\n"
        f"torch==2.13.0+cpu --hash=sha256:{A}\r\n\n"
        f'x[extra-one,two]==1!2.0.post1 ; python_version < "3.12" --hash=sha256:{B}'
    )
    assert normalised(plain) == normalised(LOCK)
    assert len(normalised(LOCK)) == 3


@pytest.mark.parametrize(("old", "new"), [("1.26.4", "1.26.3"), (B, "c" * 64), ("numpy", "numpi"), ("3.12", "3.11")])
def test_every_other_change_counts(old: str, new: str) -> None:
    assert normalised(LOCK.replace(old, new)) != normalised(LOCK)
