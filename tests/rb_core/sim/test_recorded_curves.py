"""Recorded curves: what is read, what holds between two points, and what is refused with which words."""

import math

import pytest

from rb_core.errors import InvalidInput
from rb_core.sim.recorded import RecordedCurves
from rb_core.spec import ExperimentSpec

TABLE = """trial,iterations,score,note
0,4,0.5,first
0,8,0.6,
1,2,0.1,
1,4,0.4,
2,4,nan,
0,16,0.7,
"""
SPEC = ExperimentSpec.from_stages([(3, 4), (1, 12)])


@pytest.fixture
def read(tmp_path):
    def read(text: str | bytes) -> RecordedCurves:
        path = tmp_path / "curves.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return RecordedCurves.read(path)

    return read


def test_the_last_point_at_or_before_holds(read):
    curves = read(TABLE)
    assert [curves.score(0, at) for at in (4, 7, 8, 15, 16, 99)] == [0.5, 0.5, 0.6, 0.6, 0.7, 0.7]
    assert curves.score(1, 3) == 0.1
    assert math.isnan(curves.score(2, 4))


def test_a_trial_need_not_be_recorded_beyond_where_its_scores_end_it(read):
    read(TABLE).check(SPEC, "max")


@pytest.mark.parametrize(
    ("dropped", "mode", "problem"),
    [
        (("2,",), "max", "must hold every trial from 0 to 2; trial 2 is missing"),
        (("1,",), "max", "trial 1 is missing: record it, or rehearse an experiment with fewer trials"),
        (("0,8",), "max", None),
        (("0,16",), "max", None),
        (("0,8", "0,16"), "max", "trial 0 must have a score recorded after 5 to 16 iterations"),
        (("0,4",), "max", "trial 0 must have a score recorded after 1 to 4 iterations"),
        ((), "max", None),
        ((), "min", "trial 1 must have a score recorded after 5 to 16 iterations"),
    ],
)
def test_gaps(read, dropped, mode, problem):
    lines = [line for line in TABLE.splitlines() if not line.startswith(dropped or ("-",))]
    curves = read("\n".join(lines))
    if problem is None:
        curves.check(SPEC, mode)
        return
    with pytest.raises(InvalidInput) as caught:
        curves.check(SPEC, mode)
    assert caught.value.key == "curves"
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("trial,score\n0,1\n", "must have the columns trial, iterations, score; iterations is missing"),
        ("", "trial, iterations, score is missing"),
        ("trial,iterations,score\n0,4,good\n", "line 2: score: must be a finite number or nan, got 'good'"),
        ("trial,iterations,score\n0,4,inf\n", "must be a finite number or nan, got 'inf'"),
        ("trial,iterations,score\n0,4\n", "line 2: score: must be a finite number or nan, got ''"),
        ("trial,iterations,score\n0,4,1\n-1,4,1\n", "line 3: trial: must be an integer of at least 0, got '-1'"),
        ("trial,iterations,score\n0,0,1\n", "line 2: iterations: must be an integer of at least 1, got '0'"),
        ("trial,iterations,score\n0,4.5,1\n", "iterations: must be an integer of at least 1, got '4.5'"),
        ("trial,iterations,score\n0,4,1\n0,4,2\n", "line 3: gives the score of trial 0 after 4 iterations twice"),
        (b"trial,iterations,score\n\xff,4,1\n", "is not a CSV file in UTF-8"),
    ],
)
def test_what_is_no_table_of_curves_is_refused(read, text, problem):
    with pytest.raises(InvalidInput, match=r"curves\.csv") as caught:
        read(text)
    assert problem in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        RecordedCurves.read(tmp_path / "curves.csv")
