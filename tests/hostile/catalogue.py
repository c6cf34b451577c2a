"""Catalogue: every case, by theme."""

from __future__ import annotations

from tests.hostile import endings, exhaustion, floods, pretence, privileges, reach, texts

CASES = (
    *endings.CASES,
    *exhaustion.CASES,
    *floods.CASES,
    *privileges.CASES,
    *reach.CASES,
    *texts.CASES,
    *pretence.CASES,
)
