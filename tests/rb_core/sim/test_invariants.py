"""Each invariant sees the very thing that it is there for, in evidence that was sound before it was altered."""

import copy
import math
from dataclasses import replace

import pytest
from sim_cases import Falling, case_of

from rb_core import events
from rb_core.errors import InvalidInput, LaunchFailure, TrialFailure
from rb_core.sim.evidence import Evidence
from rb_core.sim.faults import Faults, Slowness
from rb_core.sim.invariants import INVARIANTS, violations
from rb_core.sim.reference import best_first
from rb_core.sim.starts import StartEnding
from rb_core.sim.world import World
from rb_core.spec import ExperimentSpec
from rb_core.state import fold


@pytest.fixture
def sound() -> Evidence:
    problem, plan = case_of("noisy_00")
    return World(problem, plan, seed=0, faults=Faults(), curves=Falling()).run()


def altered(evidence: Evidence, kind: type, **values: object) -> Evidence:
    """The evidence with the last event of a kind changed; with no values, without it."""
    told = list(evidence.events)
    at = max(number for number, event in enumerate(told) if type(event) is kind)
    told[at : at + 1] = [replace(told[at], **values)] if values else []
    return replace(evidence, events=tuple(told))


def folded(evidence: Evidence) -> Evidence:
    return replace(evidence, state=fold(evidence.events))


def broken(evidence: Evidence) -> set[str]:
    return {problem.partition(":")[0] for problem in violations(evidence)}


def book(evidence: Evidence, number: int = 0, **values: object) -> Evidence:
    """The evidence with one node of the cloud's books changed."""
    nodes = {name: copy.copy(node) for name, node in evidence.nodes.items()}
    node = list(nodes.values())[number]
    for key, value in values.items():
        setattr(node, key, value)
    return replace(evidence, nodes=nodes)


def start(evidence: Evidence, number: int = 0, **values: object) -> Evidence:
    """The evidence with one start of the launcher's books changed."""
    starts = [copy.copy(own) for own in evidence.starts]
    for key, value in values.items():
        setattr(starts[number], key, value)
    return replace(evidence, starts=tuple(starts))


def test_a_sound_run_breaks_none(sound):
    assert violations(sound) == []


def test_ended(sound):
    check = INVARIANTS["ended"]
    assert list(check(altered(sound, events.RunEnded))) == ["the log does not end with the end of the run"]
    assert list(check(replace(sound, events=sound.events[1:])))
    assert list(check(replace(sound, endless=True)))
    for error in (
        InvalidInput("x", "y"),
        LaunchFailure("no capacity"),
        TrialFailure(trial=0, rank=0, cause="boom"),
        RuntimeError("bug"),
    ):
        assert "no fault explains" in next(check(replace(sound, error=error)))
    faulty = replace(sound, faults=Faults(launch_failure=0.1, trial_failure=0.1))
    for error in (LaunchFailure("no capacity"), TrialFailure(trial=0, rank=0, cause="boom")):
        assert list(check(replace(faulty, error=error))) == []
    assert list(check(replace(faulty, error=LaunchFailure("it waits for something that never comes"))))


@pytest.mark.parametrize(
    ("faults", "error", "explained"),
    [
        (Faults(true_iteration_factor=1e9), TrialFailure(trial=0, rank=0, cause="hangs"), True),
        (Faults(true_iteration_factor=2.0), TrialFailure(trial=0, rank=0, cause="hangs"), False),
        (Faults(true_init_factor=1e9), LaunchFailure("no node"), True),
        (Faults(true_init_factor=3.0), LaunchFailure("no node"), False),
        (Faults(slow_init=Slowness(probability=0.5, factor=1e9)), LaunchFailure("no node"), True),
        (Faults(slow_init=Slowness(probability=0.0, factor=1e9)), LaunchFailure("no node"), False),
    ],
)
def test_what_takes_far_longer_than_was_said_may_end_a_run(sound, faults, error, explained):
    told = list(INVARIANTS["ended"](replace(sound, faults=faults, error=error)))
    assert bool(told) != explained


def test_a_run_with_very_many_checkpoints_is_not_endless():
    problem, plan = case_of("noisy_00")
    long = replace(problem, experiment=ExperimentSpec.from_stages([(1, 2000)]))
    one = replace(plan, chains=((plan.chains[0][-1],),))
    evidence = World(long, one, seed=0, faults=Faults(), curves=Falling(), checkpoint_every_s=0.1).run()
    assert len(evidence.events) > 4000
    assert violations(evidence) == []


def test_scores_that_are_none_may_end_a_run(sound):
    error = TrialFailure(trial=0, rank=0, cause="every score is NaN")
    (first, *_) = sound.scores
    told = INVARIANTS["ended"](replace(sound, scores={**sound.scores, first: math.nan}, error=error))
    assert list(told) == []


def test_time_passes(sound):
    assert broken(altered(sound, events.StageEnded, t_s=1.0)) == {"time_passes"}


def test_nothing_held(sound):
    assert broken(replace(sound, owned=("n0",))) == {"nothing_held"}
    assert "nothing_held" in broken(start(sound, ended_s=None))


@pytest.mark.parametrize(("key", "value"), [("running_s", 1.5), ("released_s", 1e6)])
def test_node_times_and_money(sound, key, value):
    assert broken(book(sound, **{key: value})) == {"nodes_accounted_for", "money_adds_up"}


def test_nodes_that_the_log_does_not_know_or_that_the_cloud_does_not(sound):
    assert "nodes_accounted_for" in broken(altered(sound, events.NodeRequested))
    assert "nodes_accounted_for" in broken(replace(sound, nodes={}, starts=()))
    assert "nodes_accounted_for" in broken(altered(sound, events.NodeReleased))


def test_late_times_are_borne_only_where_answers_were_lost(sound):
    node = next(iter(sound.nodes.values()))
    earlier = book(sound, released_s=node.released_s - 5.0)
    assert "nodes_accounted_for" in broken(earlier)
    waited = replace(earlier, faults=Faults(answer_lost=0.1))
    assert not {"nodes_accounted_for", "money_adds_up"} & broken(waited)
    assert "nodes_accounted_for" in broken(
        replace(book(sound, released_s=node.released_s - 50.0), faults=Faults(answer_lost=0.1))
    )


def test_nodes_limited(sound):
    held = len([node for node in sound.nodes.values() if node.requested_s == 0.0])
    cloud = replace(sound.request.problem.cloud, max_nodes=held - 1)
    problem = replace(sound.request.problem, cloud=cloud)
    assert broken(replace(sound, request=replace(sound.request, problem=problem))) == {"nodes_limited"}


def test_budget_kept(sound):
    tight = replace(sound, request=replace(sound.request, max_usd=1e-3))
    assert broken(tight) == {"budget_kept"}
    assert broken(replace(tight, killed_s=(1.5,))) == set()


def test_trials_move_forward(sound):
    name = "trials_move_forward"
    assert name in broken(altered(sound, events.TrialStarted, from_iteration=1))
    assert name in broken(altered(sound, events.TrialStarted, stage=0))
    assert name in broken(altered(sound, events.TrialPaused, iterations=1))
    assert name in broken(start(sound, ending=StartEnding.MISSING))
    assert name in broken(start(sound, restored=3))


def test_one_place_each(sound):
    name = "one_place_each"
    first = sound.starts[0]
    assert name in broken(start(sound, ended_s=first.ended_s + 1e5))
    assert name in broken(start(sound, began_s=0.0))
    other = next(own for own in sound.starts[1:] if own.began_s < first.ended_s)
    twice = start(sound, sound.starts.index(other), slots=first.slots, nodes=first.nodes)
    assert any("was taken twice" in problem for problem in violations(twice))


def test_survivors_are_the_best(sound):
    name = "survivors_are_the_best"
    ends = [event for event in sound.events if type(event) is events.StageEnded]
    at = sound.events.index(ends[0])
    swapped = replace(ends[0], survivors=ends[0].stopped[:1] + ends[0].survivors[1:])
    told = (*sound.events[:at], swapped, *sound.events[at + 1 :])
    assert name in broken(replace(sound, events=told))
    assert name in broken(altered(sound, events.StageStarted, trials=(99,)))
    scores = {**sound.scores, (ends[0].survivors[0], 0): math.nan}
    assert name in broken(replace(sound, scores=scores))


def test_failures_are_their_own(sound):
    failed = events.TrialFailed(t_s=sound.events[-2].t_s, utc="", trial=0, stage=0, rank=0, cause="boom")
    told = replace(sound, events=(*sound.events[:-1], failed, sound.events[-1]))
    name = "failures_are_their_own"
    assert name in broken(told)
    assert name in broken(start(told, ending=StartEnding.LOST))
    assert name in broken(start(told, ending=StartEnding.KILLED))
    assert name not in broken(start(told, ending=StartEnding.RAISED))


def test_checkpoints_kept(sound):
    best = sound.state.best()
    kept = dict(sound.store.kept)
    sound.store.kept.pop(best.last_checkpoint.path)
    assert broken(sound) == {"checkpoints_kept"}
    sound.store.kept.update(kept)
    loser = next(e for e in sound.events if type(e) is events.TrialSaved and e.trial == max(sound.state.trials))
    sound.store.save(loser.checkpoint, loser.trial, loser.iterations)
    assert broken(sound) == {"checkpoints_kept"}


def test_every_invariant_has_a_test():
    tests = [name for name in globals() if name.startswith("test_")]
    merged = {"nodes_accounted_for": "test_node_times_and_money", "money_adds_up": "test_node_times_and_money"}
    assert {merged.get(name, f"test_{name}") for name in INVARIANTS} <= set(tests)


@pytest.mark.parametrize(
    ("scores", "mode", "order"),
    [
        ({0: 0.1, 1: 0.3, 2: 0.2}, "max", (1, 2, 0)),
        ({0: 0.1, 1: 0.3, 2: 0.2}, "min", (0, 2, 1)),
        ({5: 0.1, 3: 0.1, 4: 0.2}, "max", (4, 3, 5)),
        ({5: 0.1, 3: 0.1, 4: 0.0}, "min", (4, 3, 5)),
        ({0: math.nan, 1: -math.inf, 2: math.nan}, "max", (1, 0, 2)),
        ({0: math.nan, 1: math.inf, 2: 3.0}, "min", (2, 1, 0)),
        ({}, "max", ()),
    ],
)
def test_the_reference_s_order(scores, mode, order):
    assert best_first(scores, mode) == order
