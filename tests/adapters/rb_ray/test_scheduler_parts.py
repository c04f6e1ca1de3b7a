"""What `RubberBandScheduler` is made of: its memory, its stopwatch, its fleet that stays, and even shares of it."""

from __future__ import annotations

import dataclasses

import pytest
from asked import terms
from rb_ray.scheduling.allotting import EvenAllotter
from rb_ray.scheduling.fleet import FixedFleet
from rb_ray.scheduling.memory import BEFORE, FILE, Memory, parse_memory, read_memory
from rb_ray.scheduling.rungs import Rungs
from rb_ray.scheduling.seen import MOST_REPORTS, Seen, Stint
from rb_ray.scheduling.stopwatch import Stopwatch

from rb_core.bracket import Verdict
from rb_core.clock import ManualClock, pause
from rb_core.errors import UnusableLog
from rb_core.hardware import Latency
from rb_core.plan import StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec

ALLOCATION = StageAllocation(instance_type="node", nodes=2, slots_per_trial=4)
STINT = Stint(trial=1, stage=0, slots=2, from_iteration=0, start_s=1.5, first=(1, 2.0), reports=((2, 3.0),), save_s=0.5)


def memory():
    return Memory(
        run="r1",
        began_utc="2026-12-02T00:00:00+00:00",
        terms={"r": 1, "metric": "score"},
        numbers={"a": 0, "b": 1},
        log=[["came", 0], ["came", 1], ["report", 0, 1, float("inf")], ["left", 1, "failed"], ["decided", [0]]],
        allotments={0: ALLOCATION},
        stints=[STINT, dataclasses.replace(STINT, start_s=None, first=None, reports=(), save_s=None)],
    )


def test_memory_comes_back_as_it_was_written(tmp_path):
    assert read_memory(tmp_path) is None
    memory().write(tmp_path / "made")
    assert read_memory(tmp_path / "made") == memory()
    assert [file.name for file in (tmp_path / "made").iterdir()] == [FILE]


def test_memory_that_cannot_be_read_is_an_error_and_not_a_new_run(tmp_path):
    for text in ("", "[]", '{"schema": 1}', '{"schema": 2}'):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(UnusableLog, match=FILE):
            read_memory(tmp_path)
    (tmp_path / BEFORE).write_text(memory().text())
    assert read_memory(tmp_path) == memory()


def test_memory_that_cannot_be_written_names_the_remedy(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnusableLog, match="RAY_TMPDIR"):
        memory().write(tmp_path / "file")


def test_memory_of_another_version_is_refused():
    with pytest.raises(ValueError, match="schema"):
        parse_memory('{"schema": 2}')


def test_a_stint_is_timed_from_its_slots_to_its_pause():
    clock = ManualClock()
    watch = Stopwatch(clock)
    watch.released(7, stage=1, slots=2, from_iteration=3)
    pause(clock, 10.0)
    assert watch.waiting() == [7]
    watch.holds(7)
    assert watch.waiting() == []
    pause(clock, 5.0)
    for iterations, took_s in ((4, 2.0), (5, 1.0), (7, 2.0)):
        watch.reported(7, iterations, took_s)
        pause(clock, took_s)
    # Five seconds to the first report, of which an iteration without the warm-up takes one.
    assert watch.paused(7) == Stint(
        trial=7,
        stage=1,
        slots=2,
        from_iteration=3,
        start_s=4.0,
        first=(1, 2.0),
        reports=((1, 1.0), (2, 2.0)),
        save_s=2.0,
    )
    assert watch.paused(7) is None


def test_a_stint_of_one_report_takes_its_own_word_for_it():
    clock = ManualClock()
    watch = Stopwatch(clock)
    watch.released(0, stage=0, slots=1, from_iteration=0)
    watch.holds(0)
    pause(clock, 5.0)
    watch.reported(0, 1, 2.0)
    stint = watch.paused(0)
    assert stint is not None
    assert (stint.start_s, stint.first, stint.reports) == (3.0, (1, 2.0), ())


def test_several_reports_that_make_up_one_iteration_are_added_up():
    clock = ManualClock()
    watch = Stopwatch(clock)
    watch.released(0, stage=0, slots=1, from_iteration=0)
    watch.holds(0)
    pause(clock, 3.0)
    for iterations in (0, 0, 1, 1, 1, 2):
        pause(clock, 0.5)
        watch.reported(0, iterations, 0.5)
    stint = watch.paused(0)
    assert stint is not None
    assert (stint.start_s, stint.first, stint.reports) == (3.0, (1, 1.5), ((1, 1.5),))


def test_many_reports_are_added_up():
    watch = Stopwatch(ManualClock())
    watch.released(0, stage=0, slots=1, from_iteration=0)
    for iterations in range(1, 1002):
        watch.reported(0, iterations, 0.5)
    stint = watch.paused(0)
    assert stint is not None
    assert len(stint.reports) <= MOST_REPORTS
    assert sum(count for count, _ in stint.reports) == 1000
    assert sum(seconds for _, seconds in stint.reports) == 500.0


def test_iterations_are_known_by_width_and_warm_ups_count_only_alone():
    other = dataclasses.replace(STINT, slots=4, reports=(), first=(2, 8.0))
    seen = Seen(stints=(STINT, other))
    assert seen.iteration_s() == seen.iteration_s(2) == 1.5
    assert seen.iteration_s(4) == 4.0
    assert seen.iteration_s(1) is None


class Room(FixedFleet):
    """A cluster of nodes of these sizes."""

    def __init__(self, *nodes):
        super().__init__(ManualClock())
        self.sizes = nodes

    @property
    def nodes(self):
        return self.sizes


@pytest.mark.parametrize(
    ("nodes", "alive", "widths", "width"),
    [
        ((4, 4), 8, (1, 2, 4), 1),
        ((4, 4), 4, (1, 2, 4), 2),
        ((4, 4), 3, (1, 2, 4), 2),
        ((4, 4), 1, (1, 2, 4), 4),
        ((4, 4), 1, (1, 2, 4, 8), 8),
        ((4, 4), 1, (1,), 1),
        ((3, 1), 2, (1, 2), 1),
        ((), 5, (2, 4), 2),
        ((1,), 5, (2, 4), 2),
    ],
)
def test_freed_slots_are_split_evenly_among_those_that_are_left(nodes, alive, widths, width):
    experiment = ExperimentSpec.successive_halving(n=8, r=1, R=8, eta=2)
    allocation = EvenAllotter(Room(*nodes), widths=widths).allot(experiment, 0, range(alive), Seen())
    assert allocation == StageAllocation(instance_type="node", nodes=max(1, len(nodes)), slots_per_trial=width)


def test_widths_are_those_that_the_trainable_is_known_to_use():
    profile = ScalingProfile(iteration_s={slots: Latency(mean=1.0) for slots in (1, 3, 6)})
    assert terms().widths == (1,)
    assert terms(max_slots_per_trial=6).widths == (1, 2, 4, 6)
    assert terms(profile=profile).widths == (1, 3, 6)
    assert terms(profile=profile, max_slots_per_trial=4).widths == (1, 3)


def test_deadlines_are_seconds_words_or_multiples():
    assert (terms(deadline="1h30m").deadline_s, terms(deadline="1.5x").deadline_factor) == (5400.0, 1.5)
    assert terms(deadline=90).deadline_s == 90.0


def rungs(**args):
    return Rungs(**{"r": 1, "R": 4, "eta": 2, "mode": "max", **args})


def test_rungs_are_built_again_from_their_log():
    own = rungs()
    for trial in range(4):
        own.come(trial)
    for trial in range(3):
        own.report(trial, 1, float(trial))
    own.leave(3, "failed")
    own.decide()
    own.report(2, 2, 7.0)
    again = rungs(log=own.log)
    assert (again.alive, again.stage, again.gone(0), again.gone(3)) == ((2, 1), 1, "stopped", "failed")
    assert again.verdict(2, gathered=True) is Verdict.WAIT
    assert again.log == own.log


def test_a_trial_may_come_back_until_its_rung_is_decided():
    own = rungs()
    for trial in range(4):
        own.come(trial)
    own.leave(3, "failed")
    own.come(3)
    assert own.gone(3) == ""
    for trial in range(4):
        own.report(trial, 1, float(trial))
    own.leave(3, "failed")
    own.decide()
    own.come(3)
    assert (own.alive, own.gone(3)) == ((2, 1), "failed")


def test_nobody_passes_the_first_rung_before_all_have_come():
    own = rungs()
    own.come(0)
    own.report(0, 1, 1.0)
    assert own.verdict(0, gathered=False) is Verdict.WAIT
    assert own.verdict(0, gathered=True) is Verdict.CONTINUE
    own.come(1)
    assert own.verdict(0, gathered=True) is Verdict.WAIT


def test_only_scores_at_rungs_are_kept():
    own = rungs(r=2, R=8)
    for trial in range(2):
        own.come(trial)
    for iterations in range(1, 9):
        own.report(0, iterations, float(iterations))
    assert [entry[2:] for entry in own.log if entry[0] == "report"] == [[2, 2.0], [8, 8.0]]
    assert own.scores(0) == {0: 2.0}
