"""What the engine does about everything that goes wrong with trials, nodes and their provider."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_world import World, nth, plan, problem, worked_training

from rb_core import events
from rb_core.engine.request import OnDeadline
from rb_core.errors import FailureKind, LaunchFailure, RunInterrupted
from rb_core.events import RunEnding
from rb_core.ledger import cost_usd
from rb_core.plan import ChainOrder, Objective, Policies
from rb_core.state import TrialPhase, fold

WIDE = plan([(2, 1), (2, 2), (2, 4)])
NARROW = plan([(2, 1), (1, 2), (1, 2)])
TWO = [[(4, 10), (2, 20)], [(3, 10), (1, 40)]]
SAVING = worked_training(every_iteration=True, save_every=5)
UNEVEN = worked_training(iteration_s=lambda run: 30.0 if run.trial == 3 else 5.0)
"""In stage 1 trial 3 trains on node r-0 from 405 to 1005, and trial 2 leaves r-1 to itself at 506."""


def starts(world, trial, stage=None):
    """When and from which iteration a trial was started, and on which nodes."""
    return [
        (event.t_s, event.from_iteration, event.nodes)
        for event in world.of(events.TrialStarted)
        if event.trial == trial and stage in (None, event.stage)
    ]


def interrupted(world, trial):
    return [event.cause for event in world.of(events.TrialInterrupted) if event.trial == trial]


def survivors(state):
    return [stage.survivors for stage in state.stages]


def requested_s(world):
    return [node.requested_s for node in world.provider.books.values()]


def at(world, when_s, *actions):
    for action in actions:
        world.clock.call_at(when_s, action)


def kill(world, *trials):
    """End the processes of trials that run, as the kernel would."""
    return lambda: [world.launcher.live[trial].kill() for trial in trials]


def lose(world, *nodes):
    return lambda: [world.provider.lose(node) for node in nodes]


def sound(world, state, wanted=None):
    """Whatever happened: an end, nothing left behind, and the provider's bill."""
    cloud = (wanted or problem()).cloud
    assert state.ending is RunEnding.DONE
    assert world.released()
    assert world.provider.most_held <= cloud.max_nodes
    assert cost_usd(state, cloud) == pytest.approx(world.billed_usd(cloud))
    return True


# Trials that hang or die


def test_a_trial_that_hangs_is_started_once_more_and_then_has_failed():
    world = World(training=worked_training(every_iteration=True, hangs=lambda run: run.trial == 0))
    state = world.run(problem(), WIDE, patience=10.0)
    assert [t_s for t_s, _, _ in starts(world, 0)] == [90.0, 250.0]
    assert interrupted(world, 0) == ["made no progress for 160 s: does it hang?"]
    assert [(e.trial, e.t_s) for e in world.of(events.TrialFailed)] == [(0, 410.0)]
    assert survivors(state)[0] == (3, 2)
    assert sound(world, state)


@pytest.mark.parametrize("retries", [0, 3])
def test_how_often_a_trial_is_started_again_can_be_chosen(retries):
    world = World(training=worked_training(every_iteration=True, hangs=lambda run: run.trial == 0))
    world.run(problem(), WIDE, patience=10.0, retries=retries)
    assert len(starts(world, 0)) == retries + 1


def test_a_trial_that_hung_once_goes_on_from_its_checkpoint():
    def hangs(run):
        return run.trial == 3 and run.stage == 1 and sum(r.trial == 3 for r in world.launcher.starts) == 2

    world = World(training=worked_training(every_iteration=True, hangs=hangs))
    state = world.run(problem(), WIDE, patience=10.0)
    assert [(t_s, done) for t_s, done, _ in starts(world, 3, stage=1)] == [(200.0, 10), (320.0, 10)]
    assert not world.of(events.TrialFailed)
    assert sound(world, state)


def test_a_trial_that_died_is_started_again_once_it_is_clear_that_its_node_has_not():
    world = World(training=SAVING)
    at(world, 150.0, kill(world, 3))
    state = world.run(problem(), WIDE)
    assert [(t_s, done) for t_s, done, _ in starts(world, 3, stage=0)] == [(90.0, 0), (155.0, 5)]
    assert interrupted(world, 3) == ["killed by SIGKILL"]
    assert "trial 3 is started again: killed by SIGKILL" in state.warnings
    assert sound(world, state)


def test_a_trial_that_is_started_again_goes_before_those_that_have_not_begun():
    world = World()
    at(world, 250.0, kill(world, 3))
    state = world.run(problem(), NARROW)
    stage = [event for event in world.of(events.TrialStarted) if event.stage == 1]
    assert [(event.trial, event.t_s) for event in stage] == [(3, 200.0), (3, 255.0), (2, 381.0)]
    assert sound(world, state)


def test_a_trial_that_died_twice_in_a_stage_has_failed():
    world = World(training=SAVING)
    at(world, 150.0, kill(world, 0))
    at(world, 170.0, kill(world, 0))
    state = world.run(problem(), WIDE)
    assert [(e.trial, e.t_s, e.cause) for e in world.of(events.TrialFailed)] == [(0, 175.0, "killed by SIGKILL")]
    assert sound(world, state)


def test_every_stage_has_attempts_of_its_own():
    world = World()
    at(world, 150.0, kill(world, 3))
    at(world, 300.0, kill(world, 3))
    state = world.run(problem(), WIDE)
    assert len(interrupted(world, 3)) == 2
    assert sound(world, state)


@pytest.mark.parametrize(("after_s", "excused"), [(0.0, True), (4.9, True), (5.1, False)])
def test_processes_that_vanish_with_their_node_are_not_to_blame(after_s, excused):
    world = World()
    at(world, 150.0, kill(world, 0, 1))
    at(world, 150.0 + after_s, lose(world, "r-0"))
    state = world.run(problem(), WIDE, retries=0)
    assert [state.trials[n].phase is TrialPhase.FAILED for n in (0, 1)] == [not excused] * 2
    assert interrupted(world, 0) == ["killed by SIGKILL"]
    assert sound(world, state)


def test_processes_that_vanish_from_a_node_that_is_about_to_be_taken_away_are_not_to_blame():
    world = World()
    at(world, 250.0, kill(world, 3))
    at(world, 252.0, lambda: world.provider.warn("r-0", 120.0))
    state = world.run(problem(), NARROW, retries=0)
    assert interrupted(world, 3)[-1] == "killed by SIGKILL"
    assert requested_s(world) == [0.0, 0.0, 252.0]
    assert sound(world, state)


def test_a_trial_in_doubt_is_not_heard_of_after_the_run():
    world = World()
    at(world, 150.0, kill(world, 0))
    at(world, 152.0, world.interrupt)
    with pytest.raises(RunInterrupted):
        world.run(problem(), WIDE)
    world.clock.inbox().get(160.0)
    assert type(world.history[-1]) is events.RunEnded


def test_a_trial_that_raises_is_not_started_again():
    world = World(training=worked_training(failure=lambda run: "ValueError: lr" if run.trial == 0 else ""))
    world.run(problem(), WIDE, retries=5)
    assert len(starts(world, 0)) == 1
    assert [event.t_s for event in world.of(events.TrialFailed)] == [95.0]


def test_a_trial_that_could_not_be_started_has_another_try():
    def relent(event):
        if type(event) is events.TrialInterrupted:
            world.launcher.refuse.clear()

    world = World(engine={"observers": (relent,)})
    world.launcher.refuse[2] = "out of file descriptors"
    state = world.run(problem(), WIDE)
    assert interrupted(world, 2) == ["could not be started: out of file descriptors"]
    assert [t_s for t_s, _, _ in starts(world, 2, stage=0)] == [90.0, 90.0]
    assert sound(world, state)


# Checkpoints that cannot be read


def torn(*names):
    """Trials that cannot read these checkpoints of theirs in the last stage; the first one has the best score."""
    scores = {10: 0.9, 30: 0.5, 70: 0.1}
    return worked_training(
        failure=lambda run: (
            "digest differs" if run.stage == 2 and run.checkpoint and run.checkpoint.name in names else ""
        ),
        failure_kind=FailureKind.CHECKPOINT,
        score=lambda trial, done: trial + scores[done],
    )


@pytest.mark.parametrize(("names", "begun"), [(["30"], [30, 10]), (["30", "10"], [30, 10, 0])])
def test_a_trial_goes_on_from_an_earlier_checkpoint_or_from_scratch(names, begun):
    world = World(training=torn(*names))
    state = world.run(problem(), WIDE, retries=0)
    assert [done for _, done, _ in starts(world, 3, stage=2)] == begun
    assert [(e.checkpoint, e.cause) for e in world.of(events.CheckpointLost)] == [
        (f"store/trial-3/{name}", "digest differs") for name in names
    ]
    assert state.warnings[-1].startswith(
        "a checkpoint of trial 3 cannot be read; it goes on from "
        + ("iteration 10: " if len(names) == 1 else "its first iteration: ")
    )
    assert [c.iterations for c in state.trials[3].checkpoints] == ([10, 70] if len(names) == 1 else [70])
    assert sound(world, state)


# Nodes that are lost


def test_several_nodes_that_are_lost_at_once_are_all_replaced():
    world = World()
    at(world, 150.0, lose(world, "r-0", "r-1"))
    state = world.run(problem(), WIDE)
    assert requested_s(world) == [0.0, 0.0, 150.0, 150.0]
    assert state.stages[0].end_s == 150.0 + 90.0 + 5.0 + 100.0 + 1.0 + 4.0
    assert len(world.of(events.TrialInterrupted)) == 4
    assert sound(world, state)


def test_a_lost_node_is_not_replaced_when_the_stage_has_room_without_it():
    world = World(training=UNEVEN)
    at(world, 700.0, lose(world, "r-0"))
    state = world.run(problem(), plan([(2, 1), (2, 2), (1, 2)]))
    assert [nodes for _, _, nodes in starts(world, 3, stage=1)] == [("r-0",), ("r-1",)]
    assert len(world.provider.books) == 2
    assert sound(world, state)


def test_an_idle_node_that_is_lost_is_not_replaced_before_the_next_stage_needs_it():
    world = World(training=UNEVEN)
    at(world, 700.0, lose(world, "r-1"))
    state = world.run(problem(), WIDE)
    assert requested_s(world) == [0.0, 0.0, state.stages[1].end_s]
    assert sound(world, state)


def test_losses_with_progress_in_between_are_borne_without_end():
    world = World(training=SAVING)
    for when_s in (180.0, 400.0, 650.0, 900.0):
        at(world, when_s, lambda: world.provider.lose(world.provider.owned("r")[0]))
    state = world.run(problem(), NARROW, max_losses=1)
    assert len(world.of(events.NodeLost)) == 4
    assert sound(world, state)


@pytest.mark.parametrize("fate", ["lose", "warn"])
def test_many_nodes_that_go_at_once_are_one_loss(fate):
    world = World(training=SAVING)
    wanted = problem([[(16, 10)]], slots=1, max_nodes=32)

    def strike():
        for number in range(16):
            world.provider.lose(f"r-{number}") if fate == "lose" else world.provider.warn(f"r-{number}", 120.0)

    at(world, 91.0, strike)
    state = world.run(wanted, plan([(16, 1)]), max_losses=1)
    assert len(state.nodes) == 32
    assert state.ending is RunEnding.DONE
    assert sound(world, state, wanted)


def test_nodes_that_are_taken_away_again_and_again_with_notice_end_the_run():
    world = World(init_s=0.0)
    for number in range(5):
        at(world, 30.0 * (number + 1), lambda: [world.provider.warn(n, 60.0) for n in world.provider.owned("r")])
    with pytest.raises(LaunchFailure, match="nodes were lost 4 times without any checkpoint in between"):
        world.run(problem(), NARROW, max_losses=3)
    assert world.released()


@pytest.mark.parametrize(("when_s", "again_s", "done"), [(120.0, 210.0, 0), (200.0, 230.0, 10)])
def test_a_trial_that_spans_a_lost_node_goes_on_with_the_rest_of_its_group_and_the_next_node(when_s, again_s, done):
    world = World()
    at(world, when_s, lose(world, "r-1"))
    state = world.run(problem([[(1, 10), (1, 20)]]), plan([(2, 4), (3, 4)]))
    stage = 0 if done == 0 else 1
    assert starts(world, 0, stage)[-1] == (again_s, done, ("r-0", "r-2"))
    assert interrupted(world, 0) == ["its node was lost"]
    assert state.ending is RunEnding.DONE
    assert world.released()


# Nodes that are about to be taken away


@pytest.mark.parametrize("max_nodes", [2, 3])
def test_trials_of_a_leaving_node_save_and_go_on_elsewhere(max_nodes):
    world = World()
    wanted = problem(max_nodes=max_nodes)
    at(world, 250.0, lambda: world.provider.warn("r-1", 120.0))
    state = world.run(wanted, WIDE)
    assert interrupted(world, 2) == ["its node is taken away"]
    assert [done for _, done, _ in starts(world, 2, stage=1)] == [10, 17]
    assert state.nodes["r-1"].released_s == 250.0
    assert requested_s(world) == [0.0, 0.0, 250.0]
    assert [e.reason for e in world.of(events.NodeReleased) if e.node == "r-1"] == ["its trials have left it"]
    assert sound(world, state, wanted)


@pytest.mark.parametrize("max_nodes", [2, 3])
def test_a_trial_that_spans_a_leaving_node_saves_and_gets_another_group(max_nodes):
    world = World()
    wanted = problem(max_nodes=max_nodes)
    at(world, 400.0, lambda: world.provider.warn("r-0", 120.0))
    state = world.run(wanted, WIDE)
    assert [(t_s, done, nodes) for t_s, done, nodes in starts(world, 3, stage=2)] == [
        (330.0, 30, ("r-0", "r-1")),
        (490.0, 46, ("r-1", "r-2")),
    ]
    assert sound(world, state, wanted)


def test_an_idle_leaving_node_is_given_back_at_once():
    world = World(training=UNEVEN)
    at(world, 700.0, lambda: world.provider.warn("r-1", 120.0))
    state = world.run(problem(), plan([(2, 1), (2, 2), (1, 2)]))
    assert state.nodes["r-1"].released_s == 700.0
    assert len(world.provider.books) == 2
    assert sound(world, state)


def test_a_node_that_is_taken_away_before_it_is_usable_is_replaced():
    world = World()
    at(world, 50.0, lambda: world.provider.warn("r-1", 120.0))
    state = world.run(problem(), WIDE)
    assert state.nodes["r-1"].released_s == 50.0
    assert requested_s(world) == [0.0, 0.0, 50.0]
    assert sound(world, state)


def test_a_trial_that_does_not_leave_in_time_is_ended_before_its_node_is():
    world = World(training=worked_training(hangs=lambda run: run.trial == 0 and len(world.launcher.starts) < 5))
    at(world, 150.0, lambda: world.provider.warn("r-0", 120.0))
    at(world, 270.0, lose(world, "r-0"))
    state = world.run(problem(), WIDE)
    assert [e.t_s for e in world.of(events.TrialInterrupted) if e.trial == 0] == [265.0]
    assert state.nodes["r-0"].released_s == 265.0
    assert sound(world, state)


def test_a_node_that_is_gone_sooner_than_was_said_is_just_lost():
    world = World(training=worked_training(hangs=lambda run: run.trial == 0 and len(world.launcher.starts) < 5))
    at(world, 150.0, lambda: world.provider.warn("r-0", 120.0))
    at(world, 200.0, lose(world, "r-0"))
    state = world.run(problem(), WIDE)
    assert state.nodes["r-0"].lost == "reclaimed"
    assert sound(world, state)


# Nodes that cannot be had


def test_a_stage_begins_when_a_refused_request_is_granted():
    world = World()
    world.provider.refuse, world.provider.refusals = "no capacity", 3
    state = world.run(problem(), WIDE)
    assert requested_s(world) == [35.0, 35.0]
    assert state.jct_s == 535.0
    assert sound(world, state)


def test_a_run_for_which_no_node_can_be_had_fails_with_the_remedy():
    world = World()
    world.provider.refuse, world.provider.refusals = "no capacity", 99
    with pytest.raises(LaunchFailure, match="no node of type a could be had in 20 attempts"):
        world.run(problem(), WIDE)
    assert world.told[-1].ending is RunEnding.FAILED
    assert not fold(world.told).held
    assert world.released()


def test_a_run_that_holds_a_node_on_which_nothing_can_train_does_not_wait_for_the_others_for_ever():
    world = World()
    world.provider.refuse, world.provider.refusals = "no capacity", 0
    at(world, 400.0, lambda: setattr(world.provider, "refusals", 999), lose(world, "r-1"))
    with pytest.raises(LaunchFailure, match="in 20 attempts, and nothing trains on what is held"):
        world.run(problem(), WIDE)
    assert world.provider.refusals == 979
    assert world.released()


def test_a_stage_goes_on_with_the_nodes_that_it_has():
    world = World()
    at(world, 150.0, lambda: setattr(world.provider, "refuse", "no capacity"))
    world.provider.refusals = 20
    state = world.run(problem(), plan([(1, 1), (2, 2), (1, 2)]))
    assert {nodes for _, _, nodes in starts(world, 2, stage=1) + starts(world, 3, stage=1)} == {("r-0",)}
    assert sum("the stage goes on with what it has" in text for text in state.warnings) == 1
    assert list(world.provider.books) == ["r-0"]
    assert sound(world, state)


def test_a_node_that_comes_late_takes_trials_that_still_wait():
    world = World()
    at(world, 150.0, lambda: setattr(world.provider, "refuse", "no capacity"))
    world.provider.refusals = 2
    state = world.run(problem([[(4, 10), (4, 20)]]), plan([(1, 1), (4, 2)]))
    assert len({nodes for trial in range(4) for _, _, nodes in starts(world, trial, stage=1)}) > 1
    assert sound(world, state)


def test_a_request_that_is_lost_before_it_runs_is_made_again():
    world = World()
    at(world, 10.0, lose(world, "r-0"))
    state = world.run(problem(), WIDE, max_losses=0)
    assert requested_s(world) == [0.0, 0.0, 15.0]
    assert [event.t_s for event in world.of(events.TrialStarted)][:4] == [90.0, 90.0, 105.0, 105.0]
    assert sound(world, state)


def test_nodes_that_never_become_usable_are_given_back_and_replaced():
    world = World(init_s=9999.0)
    at(world, 500.0, lambda: setattr(world.provider, "init_s", 60.0))
    state = world.run(problem(), WIDE)
    assert [node.released_s for node in state.nodes.values()][:2] == [510.0, 510.0]
    assert requested_s(world) == [0.0, 0.0, 515.0, 515.0]
    assert state.jct_s == 515.0 + 500.0
    assert sound(world, state)


# A provider that does not answer


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("call", ["launch", "slots", "release", "owned"])
@pytest.mark.parametrize("lost", ["unheard", "unanswered"])
def test_answers_that_are_lost_change_nothing_but_the_time(lost, call, count):
    world = World()
    getattr(world.provider, lost)[call] = count
    state = world.run(problem(), NARROW)
    assert getattr(world.provider, lost)[call] == 0
    assert state.ending is RunEnding.DONE
    assert survivors(state) == [(3, 2), (3,), (3,)]
    assert world.released()
    if lost == "unanswered":
        assert cost_usd(state, problem().cloud) == pytest.approx(world.billed_usd(problem().cloud))


# The deadline


def due(deadline_s):
    return replace(problem(), objective=Objective(deadline_s=deadline_s))


def test_at_the_deadline_a_run_stops_and_keeps_what_it_has():
    world = World()
    state = world.run(due(250.0), WIDE, on_deadline=OnDeadline.STOP)
    assert (state.ending, state.reason) == (RunEnding.DEADLINE, "its deadline came before its end")
    assert world.clock.now() == 250.0
    assert state.best().trial == 3
    assert {t: state.trials[t].last_checkpoint.iterations for t in (2, 3)} == {2: 17, 3: 17}
    assert [event.cause for event in world.of(events.TrialInterrupted)] == ["the run was stopped"] * 2
    assert world.released()
    assert cost_usd(state, problem().cloud) == pytest.approx(world.billed_usd(problem().cloud))


def test_a_trial_that_does_not_stop_at_the_deadline_is_killed_after_the_grace_time():
    world = World(training=worked_training(hangs=lambda run: run.trial == 0))
    state = world.run(due(150.0), WIDE, on_deadline=OnDeadline.STOP, grace_s=20.0)
    assert state.ending is RunEnding.DEADLINE
    assert world.clock.now() == 170.0
    assert world.released()


def test_after_the_deadline_a_run_that_may_finish_says_so_and_does():
    world = World()
    state = world.run(due(250.0), WIDE)
    assert [(event.t_s, event.text) for event in world.of(events.Warned)] == [
        (250.0, "the deadline has come; the rest is run, for less where that ends no later")
    ]
    assert sound(world, state)


@pytest.mark.parametrize("on_deadline", list(OnDeadline))
def test_a_deadline_that_is_met_changes_nothing(on_deadline):
    world = World()
    state = world.run(due(500.5), WIDE, on_deadline=on_deadline)
    assert state.warnings == []
    assert sound(world, state)


# Everything at once


class Harm:
    """A world in which many things go wrong, drawn by a generator."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.world = world = World(training=SAVING)
        world.provider.refuse, world.provider.refusals = "no capacity", int(rng.integers(3))
        for call in ("launch", "slots", "release", "owned", "adopt"):
            world.provider.unanswered[call] = int(rng.integers(3))
        for when_s in np.sort(rng.uniform(0.0, 900.0, 12)):
            at(world, float(when_s), self.strike)
        self.chains = [
            ([[(4, 10), (2, 20), (1, 40)]], WIDE),
            ([[(4, 10), (2, 20), (1, 40)]], NARROW),
            (TWO, plan([(2, 1), (1, 2)], [(2, 1), (1, 2)])),
            (TWO, plan([(1, 1), (1, 2)], [(1, 1), (1, 2)], order=ChainOrder.PARALLEL)),
        ]
        chains, self.plan = self.chains[seed % 4]
        self.problem = problem(chains, max_nodes=(2, 8)[seed % 3 == 0])
        self.limits = {"retries": 12, "max_losses": 12}

    def strike(self):
        rng, world = self.rng, self.world
        # What the log has released but the provider has not, because of a kill, is for the resumed run to find.
        released = {event.node for event in world.history if type(event) is events.NodeReleased}
        books = world.provider.books.values()
        held = [node.name for node in books if node.released_s is None and node.name not in released]
        live = sorted(world.launcher.live)
        match rng.integers(4):
            case 0 if held:
                world.provider.lose(held[rng.integers(len(held))])
            case 1 if held:
                world.provider.warn(held[rng.integers(len(held))], float(rng.choice([0.0, 10.0, 120.0])))
            case 2 if live:
                world.launcher.live[live[rng.integers(len(live))]].kill()
            case 3:
                world.provider.refusals = int(rng.integers(4))

    def check(self, state):
        calm = World().run(self.problem, self.plan)
        assert {(s.chain, s.stage): s.survivors for s in state.stages} == {
            (s.chain, s.stage): s.survivors for s in calm.stages
        }
        assert state.best().trial == calm.best().trial
        assert not state.held
        assert sound(self.world, state, self.problem)
        times = [event.t_s for event in self.world.history]
        assert times == sorted(times)
        done, running = dict.fromkeys(state.trials, 0), set()
        for event in self.world.history:
            match event:
                case events.TrialStarted():
                    assert event.from_iteration == done[event.trial]
                    assert event.trial not in running
                    running.add(event.trial)
                case events.TrialPaused() | events.TrialInterrupted():
                    running.discard(event.trial)
                case events.RunResumed():
                    running.clear()
                case events.TrialSaved():
                    assert event.iterations > done[event.trial]
                    done[event.trial] = event.iterations


@pytest.mark.parametrize("seed", range(60))
def test_whatever_goes_wrong_the_same_trials_survive_and_nothing_is_left(seed):
    harm = Harm(seed)
    harm.check(harm.world.run(harm.problem, harm.plan, **harm.limits))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_goes_wrong_with_a_run_that_is_killed_the_same_trials_survive_and_nothing_is_left(seed):
    harm = Harm(seed)
    for _ in range(5):
        written = bool(harm.world.history) and bool(harm.rng.integers(2))
        fatal = nth(int(harm.rng.integers(1, 80)))
        harm.world.killed(harm.problem, harm.plan, fatal, written=written, **harm.limits)
        if fold(harm.world.history).ending is RunEnding.DONE:
            break
        harm.world.pass_away(float(harm.rng.choice([0.0, 20.0, 200.0])))
    else:
        harm.world.resume(harm.problem, harm.plan, **harm.limits)
    harm.check(fold(harm.world.history))


def test_an_idle_node_is_kept_for_a_trial_whose_node_is_about_to_be_taken_away():
    wanted = replace(problem([[(1, 10)]]), policies=Policies(early_release=True))
    world = World(training=worked_training(hangs=lambda run: run.slots[0].node == "r-0"))
    at(world, 150.0, lambda: world.provider.warn("r-0", 200.0))
    state = world.run(wanted, plan([(1, 2)]))
    assert state.ending is RunEnding.DONE
    assert [run.slots[0].node for run in world.launcher.starts] == ["r-0", "r-1"]
    assert world.released()
