import pytest
from rb_ray.scheduling.chronicle import Chronicle
from rb_ray.scheduling.fleet import FixedFleet
from rb_ray.scheduling.rungs import Rungs
from test_elastic_fleet import BOX, Rig, box

from rb_core.events import StageEnded, StageStarted, TrialFailed, TrialInterrupted, TrialLeft, TrialPaused
from rb_core.plan import StageAllocation
from rb_core.state import TrialPhase, fold

ALLOTMENTS = {0: box(2), 1: box(1)}


class Book:
    """The log of a fleet, and four trials of which two are to go on after 1 iteration, and one after 2."""

    def __init__(self, home):
        self.rig = Rig(home)
        self.rungs = Rungs(r=1, R=4, eta=2, mode="max")
        for trial in range(4):
            self.rungs.come(trial)
        self.allotments = {}
        self.chronicle = self.sitting()

    def sitting(self):
        def names(label):
            return {f"id-{name}": name for name in self.rig.owned} | {"id-head": "no node of the run"}

        return Chronicle(self.rig.fleet, self.rungs, names=names)

    def keep_up(self):
        self.chronicle.keep_up({trial: {"x": trial} for trial in range(4)}, self.allotments, "failed")

    def allot(self, stage):
        self.allotments[stage] = ALLOTMENTS[stage]
        self.keep_up()
        self.rig.fleet.resize(self.allotments[stage], stage)
        self.rig.wait(91.0)

    def start(self, trial, node="r-0"):
        self.chronicle.started(trial, slots=1, from_iteration=0, node_ids=[f"id-{node}"])

    @property
    def state(self):
        return fold(self.rig.events)

    def kinds(self, *wanted):
        return self.rig.kinds(*wanted)


@pytest.fixture
def book(tmp_path):
    made = Book(tmp_path)
    yield made
    made.rig.fleet.settle()


def first_stage(book):
    book.allot(0)
    for trial in range(4):
        book.start(trial, f"r-{trial // 2}")
    book.rig.wait(10.0)
    for trial in range(4):
        book.rungs.report(trial, 1, float(trial))
        book.chronicle.stopped(trial, "it was paused before its rung")


def test_a_stage_is_told_from_its_beginning_to_its_end(book):
    first_stage(book)
    book.rungs.decide()
    book.keep_up()
    book.allot(1)
    first, second = book.state.stages
    assert (first.trials, first.survivors, first.stopped) == ((0, 1, 2, 3), (3, 2), (0, 1))
    assert (first.instance_type, first.nodes, first.slots_per_trial) == (BOX.name, 2, 1)
    assert (second.trials, second.end_s) == ((3, 2), None)
    assert [trial.phase for trial in book.state.trials.values()] == [
        TrialPhase.STOPPED, TrialPhase.STOPPED, TrialPhase.WAITING, TrialPhase.WAITING,
    ]  # fmt: skip
    assert [trial.score for trial in book.state.trials.values()] == [0.0, 1.0, 2.0, 3.0]
    assert book.state.trials[2].config == {"x": 2}


def test_what_trained_is_not_idle(book):
    first_stage(book)
    assert book.state.stages[0].trained_slot_s == pytest.approx(40.0)
    # Nodes of two slots: each held two trials for ten seconds.
    assert [node.trained_s for node in book.state.nodes.values()] == pytest.approx([10.0, 10.0])


def test_nothing_is_told_twice(book):
    first_stage(book)
    before = len(book.rig.events)
    book.keep_up()
    book.chronicle.stopped(0, "again")
    assert len(book.rig.events) == before
    book.start(1)
    book.start(1)
    assert len(book.rig.events) == before + 1


def test_a_later_sitting_tells_what_the_earlier_one_has_not(book):
    first_stage(book)
    book.rungs.decide()
    book.rig.killed()
    book.rig.open(restored=True)
    book.chronicle = book.sitting()
    book.allot(1)
    assert book.kinds(StageStarted, StageEnded) == [StageStarted, StageEnded, StageStarted]


def test_trials_that_fail_or_end_early_are_out_of_their_stage(book):
    book.allot(0)
    book.start(0)
    book.chronicle.stopped(0, "it failed")
    book.rungs.leave(0, "failed")
    book.rungs.leave(1, "ended")
    book.keep_up()
    for trial in (2, 3):
        book.rungs.report(trial, 1, 1.0)
    book.rungs.decide()
    book.keep_up()
    assert book.kinds(TrialInterrupted, TrialPaused, TrialFailed, TrialLeft, StageEnded) == [
        TrialInterrupted, TrialFailed, TrialLeft, StageEnded,
    ]  # fmt: skip
    (stage,) = book.state.stages
    assert not {0, 1} & {*stage.survivors, *stage.stopped}


def test_an_end_before_the_last_stage_s_is_an_interruption_that_tune_goes_on_with(book):
    first_stage(book)
    book.rig.fleet.settle()
    assert (book.rig.outcome.ending, book.rig.outcome.resumable) == ("interrupted", False)
    assert book.rig.outcome.state.reason.endswith("Tuner.restore goes on with it")


def test_a_trial_on_a_node_that_is_none_of_the_run_s_is_not_told(book):
    book.allot(0)
    before = len(book.rig.events)
    book.start(0, "head")
    assert len(book.rig.events) == before


def test_a_cluster_that_stays_has_no_log():
    fleet = FixedFleet(clock=None)
    chronicle = Chronicle(fleet, Rungs(r=1, R=4, eta=2, mode="max"), names=None)
    chronicle.keep_up({0: {}}, {0: StageAllocation(instance_type="node", nodes=1, slots_per_trial=1)}, "failed")
    chronicle.started(0, slots=1, from_iteration=0, node_ids=["a"])
    chronicle.stopped(0, "it ended")
