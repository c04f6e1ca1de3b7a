import math

import pytest

from rb_core import events
from rb_core.events import RunEnding
from rb_core.state import Checkpoint, RunState, TrialPhase, apply, fold

STAGES = [
    {"trials": 3, "iterations": 2, "instance_type": "a", "nodes": 1, "slots_per_trial": 1},
    {"trials": 1, "iterations": 2, "instance_type": "a", "nodes": 1, "slots_per_trial": 1},
]


class Story:
    """Events with the time that passes between them."""

    def __init__(self, mode="max", plan=None, trials=3):
        self.t_s = 0.0
        self.events = []
        self.tell(
            events.RunStarted,
            run="r",
            problem={},
            plan=plan or {"stages": STAGES},
            metric="accuracy",
            mode=mode,
            seed=0,
            target="t",
            environment={},
        )
        for trial in range(trials):
            self.tell(events.TrialCreated, trial=trial, chain=0, config={"lr": trial})

    def tell(self, kind, **values):
        self.events.append(kind(t_s=self.t_s, utc="", **values))
        return self

    def later(self, seconds):
        self.t_s += seconds
        return self

    def stage(self, number, trials, chain=0):
        return self.tell(
            events.StageStarted,
            chain=chain,
            stage=number,
            trials=trials,
            instance_type="a",
            nodes=1,
            slots_per_trial=1,
        )

    def node(self, name, chain=0):
        return self.tell(
            events.NodeRequested,
            node=name,
            chain=chain,
            stage=0,
            instance_type="a",
            slots=2,
            usd_per_hour=3.6,
        )

    def start(self, trial, nodes=("n0",), slots=1, done=0, stage=0):
        return self.tell(
            events.TrialStarted,
            trial=trial,
            chain=0,
            stage=stage,
            nodes=nodes,
            slots=slots,
            from_iteration=done,
        )

    def score(self, trial, iterations, score):
        return self.tell(events.TrialReported, trial=trial, iterations=iterations, score=score)

    def save(self, trial, iterations):
        return self.tell(
            events.TrialSaved,
            trial=trial,
            iterations=iterations,
            checkpoint=f"{trial}/{iterations}",
            size_bytes=10,
            save_s=0.5,
        )

    @property
    def state(self):
        return fold(self.events)


def begun(**options):
    return Story(**options).stage(0, (0, 1, 2)).node("n0")


def test_nothing_has_happened_in_a_new_state():
    assert fold([]) == RunState()
    assert fold([]).best() is None
    assert fold([]).jct_s == 0.0


def test_apply_changes_the_state_that_it_is_given():
    state = RunState()
    assert apply(state, events.Warned(t_s=1.0, utc="", text="careful")) is state
    assert state.warnings == ["careful"]
    assert state.t_s == 1.0


def test_the_phases_of_a_trial():
    story = begun()
    assert story.state.trials[0].phase is TrialPhase.WAITING
    story.start(0)
    assert story.state.trials[0].phase is TrialPhase.RUNNING
    story.tell(events.TrialPaused, trial=0, stage=0, iterations=2)
    assert story.state.trials[0].phase is TrialPhase.PAUSED
    story.tell(events.TrialFailed, trial=2, stage=0, rank=1, cause="boom")
    story.tell(events.StageEnded, chain=0, stage=0, survivors=(0,), stopped=(1,))
    assert [t.phase for t in story.state.trials.values()] == [
        TrialPhase.PAUSED,
        TrialPhase.STOPPED,
        TrialPhase.FAILED,
    ]
    assert story.state.trials[2].cause == "boom"
    story.stage(1, (0,))
    assert story.state.trials[0].phase is TrialPhase.WAITING
    assert story.state.trials[0].stage == 1
    story.tell(events.StageEnded, chain=0, stage=1, survivors=(0,), stopped=())
    assert story.state.trials[0].phase is TrialPhase.FINISHED


def test_the_times_of_a_node():
    story = (
        begun().later(30).tell(events.NodeRunning, node="n0", since_s=30.0).later(60).tell(events.NodeReady, node="n0")
    )
    assert list(story.state.held) == ["n0"]
    story.later(10).tell(events.NodeReleased, node="n0", reason="")
    node = story.state.nodes["n0"]
    assert (node.requested_s, node.running_s, node.ready_s, node.released_s) == (0.0, 30.0, 90.0, 100.0)
    assert not story.state.held


def test_a_node_that_runs_is_billed_since_it_did_not_since_that_was_heard():
    story = begun().later(70).tell(events.NodeRunning, node="n0", since_s=30.0)
    assert story.state.nodes["n0"].running_s == 30.0
    story.later(20).tell(events.NodeLost, node="n0", reason="reclaimed", until_s=80.0)
    assert story.state.nodes["n0"].released_s == 80.0


def test_a_node_that_had_to_be_given_back_twice_is_billed_until_the_second_time():
    story = begun().node("n1").later(10).tell(events.NodeReleased, node="n0", reason="")
    story.tell(events.NodeLost, node="n1", reason="reclaimed", until_s=10.0).later(5)
    for name in ("n0", "n1"):
        story.tell(events.NodeReleased, node=name, reason="again")
    state = story.state
    assert (state.nodes["n0"].released_s, state.nodes["n0"].released_in) == (15.0, 0)
    assert state.nodes["n1"].released_s == 10.0
    assert not state.held


def test_a_leaving_node_is_held_until_it_is_gone():
    story = begun().tell(events.NodeLeaving, node="n0", reason="reclaimed", in_s=120.0)
    assert story.state.nodes["n0"].leaving
    assert list(story.state.held) == ["n0"]


def test_a_node_released_as_a_stage_begins_belongs_to_the_one_that_ended():
    story = begun().node("n1").later(10)
    story.tell(events.StageEnded, chain=0, stage=0, survivors=(0,), stopped=(1, 2)).stage(1, (0,))
    story.tell(events.NodeReleased, node="n0", reason="").node("n2")
    story.tell(events.NodeReleased, node="n1", reason="")
    assert story.state.nodes["n0"].released_in == 0
    assert story.state.nodes["n1"].released_in == 1


def test_training_time_is_shared_among_the_slots_and_nodes():
    story = begun().node("n1").later(90).start(0, slots=1).start(1, nodes=("n0", "n1"), slots=4).later(10)
    story.tell(events.TrialPaused, trial=0, stage=0, iterations=2).later(10)
    story.tell(events.TrialFailed, trial=1, stage=0, rank=0, cause="boom")
    state = story.state
    assert state.stages[0].trained_slot_s == 10 * 1 + 20 * 4
    assert state.nodes["n0"].trained_s == 10 / 2 + 20
    assert state.nodes["n1"].trained_s == 20
    assert not state.training


def test_a_lost_node_ends_what_trains_on_it():
    story = begun().node("n1").start(0).start(1, nodes=("n1",)).later(7)
    story.tell(events.NodeLost, node="n0", reason="reclaimed", until_s=7.0)
    state = story.state
    assert state.trials[0].phase is TrialPhase.WAITING
    assert state.trials[1].phase is TrialPhase.RUNNING
    assert state.nodes["n0"].lost == "reclaimed"
    assert state.nodes["n0"].released_s == 7.0
    assert state.nodes["n0"].trained_s == 3.5


def test_a_retried_start_forgets_what_was_reported_beyond_its_checkpoint():
    story = begun().start(0)
    for iterations in (1, 2, 3):
        story.score(0, iterations, iterations / 10)
    story.start(0, done=1)
    assert story.state.trials[0].scores == {1: 0.1}
    story.score(0, 2, 0.9)
    assert story.state.trials[0].score == 0.9


def test_an_interrupted_trial_waits_for_another_start():
    story = begun().start(0).later(7).save(0, 1)
    story.tell(events.TrialInterrupted, trial=0, stage=0, cause="its node was lost", iteration_s=2.5)
    state = story.state
    assert state.trials[0].phase is TrialPhase.WAITING
    assert state.trials[0].last_checkpoint.iterations == 1
    assert state.stages[0].trained_slot_s == 7.0
    assert not state.training


def test_a_lost_checkpoint_is_none_any_more():
    story = begun().start(0).save(0, 1).save(0, 2)
    story.tell(events.CheckpointLost, trial=0, checkpoint="0/2", cause="torn")
    assert [c.path for c in story.state.trials[0].checkpoints] == ["0/1"]


def test_checkpoints_carry_the_score_of_their_own_iteration():
    story = begun().start(0).score(0, 1, 0.5).save(0, 1).save(0, 2).score(0, 2, 0.4).save(0, 3)
    trial = story.state.trials[0]
    assert [(c.iterations, c.score) for c in trial.checkpoints] == [(1, 0.5), (2, 0.4), (3, None)]
    assert trial.last_checkpoint.iterations == 3
    assert trial.best_checkpoint("max").iterations == 1
    assert trial.best_checkpoint("min").iterations == 2
    story.tell(events.CheckpointDeleted, trial=0, checkpoint="0/1")
    assert story.state.trials[0].best_checkpoint("max") == Checkpoint(
        path="0/2", iterations=2, size_bytes=10, score=0.4
    )


def test_of_checkpoints_with_equal_scores_the_later_is_best_and_nan_never_is():
    story = begun().start(0)
    for iterations, score in ((1, math.nan), (2, 0.5), (3, 0.5), (4, math.nan)):
        story.score(0, iterations, score).save(0, iterations)
    assert story.state.trials[0].best_checkpoint("max").iterations == 3


@pytest.mark.parametrize(("mode", "best"), [("max", 1), ("min", 0)])
def test_the_best_trial_is_among_the_finished(mode, best):
    story = begun(mode=mode).score(0, 2, 0.1).score(1, 2, 0.2).score(2, 2, math.nan)
    assert story.state.best().trial == best
    story.tell(events.StageEnded, chain=0, stage=0, survivors=(0,), stopped=(1, 2)).stage(1, (0,))
    story.tell(events.StageEnded, chain=0, stage=1, survivors=(0,), stopped=())
    assert story.state.best().trial == 0


def test_of_equally_good_trials_the_lower_number_is_best():
    assert begun().score(2, 2, 0.2).score(1, 2, 0.2).state.best().trial == 1


def test_the_end_ends_all_training():
    story = begun().start(0).later(3)
    story.tell(events.RunEnded, ending=RunEnding.INTERRUPTED, reason="by its user")
    state = story.state
    assert (state.ending, state.reason) == (RunEnding.INTERRUPTED, "by its user")
    assert not state.training
    assert state.stages[0].trained_slot_s == 3.0


def test_a_resumption_ends_what_trained_when_the_last_event_came():
    story = begun().start(0).later(10).score(0, 1, 0.5).later(1000)
    story.tell(events.RunResumed, problem={}, environment={}, clock="", clock_s=0.0)
    state = story.state
    assert state.trials[0].phase is TrialPhase.WAITING
    assert state.stages[0].trained_slot_s == 10.0
    assert state.resumed == 1
    assert state.t_s == 1010.0


def test_a_resumption_takes_the_ending_back():
    story = begun().tell(events.RunEnded, ending=RunEnding.INTERRUPTED, reason="by its user")
    story.tell(events.RunResumed, problem={}, environment={}, clock="", clock_s=0.0)
    assert (story.state.ending, story.state.reason) == (None, "")


CHANGED = {"reason": "", "jct_s": 1.0, "cost_usd": 1.0, "before_jct_s": 2.0, "before_cost_usd": 1.0}


def test_another_plan_for_a_stage_under_way_is_its_plan():
    two = {"chains": [{"stages": STAGES}, {"stages": STAGES}], "order": "parallel"}
    story = Story(plan=two).stage(0, (0,)).stage(0, (1,), chain=1)
    wide = {"trials": 3, "iterations": 2, "instance_type": "b", "nodes": 4, "slots_per_trial": 2}
    story.tell(events.Replanned, chain=1, stage=0, plan={"stages": [wide, STAGES[1]]}, **CHANGED)
    stages = [(stage.instance_type, stage.nodes, stage.slots_per_trial) for stage in story.state.stages]
    assert stages == [("a", 1, 1), ("b", 4, 2)]
    assert len(story.state.replans) == 1


def test_another_plan_for_a_stage_to_come_leaves_the_one_that_ended_alone():
    story = begun().tell(events.StageEnded, chain=0, stage=0, survivors=(0,), stopped=(1, 2))
    story.tell(events.Replanned, chain=0, stage=1, plan={"stages": [{**STAGES[1], "nodes": 9}]}, **CHANGED)
    assert story.state.stages[0].nodes == 1


def test_the_completion_time_counts_from_the_first_request():
    story = Story().later(5).stage(0, (0, 1, 2)).node("n0").later(100)
    story.tell(events.StageEnded, chain=0, stage=0, survivors=(0,), stopped=(1, 2))
    assert story.state.jct_s == 100.0


def test_chains_side_by_side_are_lanes_of_their_own():
    two = {"chains": [{"stages": STAGES}, {"stages": STAGES}], "order": "parallel"}
    apart = Story(plan=two).stage(0, (0, 1, 2)).node("n0").stage(0, (), chain=1).node("n1", chain=1)
    assert [node.lane for node in apart.state.nodes.values()] == [0, 1]
    after = Story(plan={**two, "order": "sequential"}).stage(0, (0,)).stage(0, (), chain=1).node("n1", chain=1)
    assert after.state.nodes["n1"].lane == 0
    assert after.state.stage_counts == (2, 2)


def test_an_event_of_something_unknown_is_an_error():
    with pytest.raises(KeyError):
        fold([events.NodeRunning(t_s=0.0, utc="", node="nobody", since_s=0.0)])
