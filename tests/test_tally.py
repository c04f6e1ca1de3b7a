"""The last step of CI, which must notice what pytest alone would let pass."""

from __future__ import annotations

import subprocess
import sys

import pytest
from source_tree import ROOT

RAN = '<testcase classname="tests.inner.test_one" name="a"/><testcase classname="tests.test_two.TestIt" name="b"/>'


@pytest.fixture
def tally(tmp_path):
    """Run the tally over a test run with these cases, of a folder with two test files."""
    for name in ("inner/test_one.py", "test_two.py"):
        file = tmp_path / "tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def tally(cases: str | None, status: int = 0) -> tuple[int, list[str]]:
        if cases is not None:
            results = tmp_path / "results"
            results.mkdir()
            (results / "one.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
            (results / "none.xml").write_text("<testsuites><testsuite/></testsuites>")
        command = [sys.executable, ROOT / ".ci" / "tally.py", "results", "tests", str(status)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert not done.stderr
        return done.returncode, done.stdout.splitlines()

    return tally


def test_a_whole_run_passes(tally):
    assert tally(RAN) == (0, ["2 passed, 0 failed"])


@pytest.mark.parametrize("kind", ["failure", "error", "skipped"])
def test_a_test_that_did_not_pass_fails_the_run(tally, kind):
    case = f'<testcase classname="tests.test_two" name="c"><{kind}/></testcase>'
    assert tally(RAN + case) == (1, ["2 passed, 1 failed"])


def test_a_file_that_did_not_run_fails_the_run(tally):
    assert tally('<testcase classname="tests.test_two" name="b"/>') == (
        1,
        ["did not run: tests.inner.test_one", "1 passed, 1 failed"],
    )


def test_the_name_of_one_file_does_not_stand_for_another(tally):
    assert tally(RAN.replace("test_two", "test_two_more"))[0] == 1


def test_a_status_of_its_own_fails_the_run(tally):
    assert tally(RAN, status=3) == (1, ["pytest ended with status 3", "2 passed, 0 failed"])


def test_no_results_fail_the_run(tally):
    assert tally(None, status=4) == (1, ["pytest ended with status 4 and left no results"])
