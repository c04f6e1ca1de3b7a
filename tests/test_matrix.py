"""The table of releases, which must fail when one of them does."""

from __future__ import annotations

from types import ModuleType

import pytest
from source_tree import ROOT


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / ".ci")
    import matrix

    return matrix


GOOD = {"version": "5.1.0", "passed": 12, "status": 0}


@pytest.mark.parametrize(
    ("last", "status", "verdict"),
    [
        (GOOD, 0, "passed"),
        (GOOD | {"not_passed": 1, "status": 1}, 1, "FAILED"),
        (GOOD | {"status": 2}, 1, "FAILED"),
        (GOOD | {"passed": 0}, 1, "FAILED"),
        ({}, 1, "FAILED"),
    ],
    ids=["all pass", "a test fails", "pytest fails", "no test ran", "not installed"],
)
def test_every_release_has_to_pass(matrix, monkeypatch, capsys, last, status, verdict) -> None:
    made = {"4.0": GOOD, "4.9": GOOD, "newest": last}
    monkeypatch.setattr(matrix, "run", lambda host, release: matrix.Row(release=release, **made[release]))
    assert matrix.main(["optuna"]) == status
    verdicts = [(line.split()[0], line.split()[-1]) for line in capsys.readouterr().out.splitlines()[2:]]
    assert verdicts == [("4.0", "passed"), ("4.9", "passed"), ("newest", verdict)]


def test_a_file_without_tests_for_a_release_is_named(matrix) -> None:
    row = matrix.Row(release="4.0", **GOOD, without_tests=("test_later",))
    assert row.good
    assert matrix.table("optuna", [row]).endswith("passed (no tests: test_later)")


def test_a_host_that_is_not_known_is_refused(matrix, capsys) -> None:
    assert matrix.main(["hydra"]) == 2
    assert "optuna, ray" in capsys.readouterr().err
