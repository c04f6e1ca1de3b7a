import math
from collections import Counter

import numpy as np
import pytest
from engine_world import World, plan, problem, worked_training
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bracket import best_of

from rb_core import events
from rb_core.errors import (
    BudgetExceeded,
    InvalidInput,
    LaunchFailure,
    LeakedNodes,
    PluginConflict,
    RunInterrupted,
    TrialFailure,
    UnusableLog,
)
from rb_core.eventlog import EventLog, MemoryLog, line, read_log
from rb_core.events import RunEnding
from rb_core.hardware import Billing
from rb_core.ledger import cost_usd, ledger
from rb_core.plan import ChainOrder
from rb_core.simulate import simulate
from rb_core.state import RunState, TrialPhase, apply, fold
from rb_core.testing.fakes import FakeTraining
from rb_core.trial import Message, Remark

WIDE = plan([(2, 1), (2, 2), (2, 4)])
NARROW = plan([(2, 1), (1, 2), (1, 2)])


def ended(world):
    """How the log says that the run ended."""
    return world.told[-1].ending, world.told[-1].reason


# The worked example of the model


@pytest.mark.parametrize(
    ("chosen", "barriers", "jct_s", "usd"),
    [(WIDE, [200.0, 330.0, 500.0], 500.0, 0.94), (NARROW, [200.0, 456.0, 706.0], 706.0, 0.846)],
)
def test_the_worked_example(chosen, barriers, jct_s, usd):
    world = World()
    state = world.run(problem(), chosen)
    assert [stage.end_s for stage in state.stages] == barriers
    assert state.jct_s == jct_s
    book = ledger(state, problem().cloud)
    assert book.cost_usd == pytest.approx(usd, abs=1e-9)
    assert sum(stage.cost_usd for stage in book.stages) == pytest.approx(usd, abs=1e-9)
    assert state.ending is RunEnding.DONE
    assert world.released()
    assert world.clock.now() == jct_s


def test_a_surplus_node_is_given_back_at_the_barrier_the_newest_first():
    world = World()
    world.run(problem(), NARROW)
    assert [(node.name, node.released_s) for node in world.provider.books.values()] == [
        ("r-0", 706.0),
        ("r-1", 200.0),
    ]


def test_trials_take_the_places_in_order_and_carry_their_checkpoints_on():
    world = World()
    world.run(problem(), WIDE)
    starts = world.launcher.starts
    assert [(run.trial, run.stage) for run in starts] == [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (2, 1), (3, 2)]
    assert [len(run.slots) for run in starts] == [1, 1, 1, 1, 2, 2, 4]
    assert [(run.from_iteration, run.to_iteration, run.max_iterations) for run in starts[3:5]] == [
        (0, 10, 70),
        (10, 30, 70),
    ]
    assert starts[0].checkpoint is None
    assert str(starts[-1].checkpoint) == "store/trial-3/30"
    assert [(slot.node, slot.index) for slot in starts[-1].slots] == [
        ("r-0", 0),
        ("r-0", 1),
        ("r-1", 0),
        ("r-1", 1),
    ]


def test_a_freed_place_serves_a_second_trial_before_a_late_node_is_usable():
    world = World(training=FakeTraining(iteration_s=lambda run: 1.0))
    inner = world.provider.launch

    def one_is_late(names, instance_type, *, run):
        inner(names[:1], instance_type, run=run)
        world.provider.init_s = 60.0
        world.provider.launch_s = 31.5
        inner(names[1:], instance_type, run=run)

    world.provider.launch = one_is_late
    world.run(problem([[(6, 1)]], widths={1: 1.0}), plan([(2, 1)]), sync_s=0.0)
    begun = [(event.trial, event.nodes, event.t_s) for event in world.of(events.TrialStarted)]
    assert begun == [
        (0, ("r-0",), 90.0),
        (1, ("r-0",), 90.0),
        (2, ("r-0",), 91.0),
        (3, ("r-0",), 91.0),
        (4, ("r-1",), 91.5),
        (5, ("r-1",), 91.5),
    ]


def test_a_stage_on_another_type_changes_all_nodes():
    world = World()
    state = world.run(problem(), plan([(2, 1), (1, 2), (1, 2)], kinds="aba"))
    assert [(node.instance_type, node.released_s) for node in state.nodes.values()] == [
        ("a", 200.0),
        ("a", 200.0),
        ("b", state.stages[1].end_s),
        ("a", state.jct_s),
    ]


def test_checkpoints_of_losers_and_older_ones_are_removed_after_the_log_says_so():
    world = World()
    state = world.run(problem(), WIDE)
    assert world.removed == [event.checkpoint for event in world.of(events.CheckpointDeleted)]
    assert sorted(world.removed) == [
        "store/trial-0/10",
        "store/trial-1/10",
        "store/trial-2/10",
        "store/trial-2/30",
        "store/trial-3/10",
        "store/trial-3/30",
    ]
    assert [c.path for c in state.trials[3].checkpoints] == ["store/trial-3/70"]


def test_a_live_trial_keeps_its_last_and_its_best_checkpoint():
    scores = {10: 0.9, 30: 0.5, 70: 0.1}
    world = World(training=worked_training(score=lambda trial, done: trial + scores[done]))
    state = world.run(problem(), WIDE)
    assert [c.iterations for c in state.trials[3].checkpoints] == [10, 70]


# Several chains

TWO = [[(4, 10), (2, 20)], [(3, 10), (1, 40)]]


def test_chains_in_sequence_share_nodes_and_number_their_trials_through():
    world = World()
    state = world.run(problem(TWO), plan([(2, 1), (1, 2)], [(2, 1), (1, 2)]))
    assert [(s.chain, s.stage, s.trials) for s in state.stages] == [
        (0, 0, (0, 1, 2, 3)),
        (0, 1, (3, 2)),
        (1, 0, (4, 5, 6)),
        (1, 1, (6,)),
    ]
    assert len(state.nodes) == 3
    assert state.nodes["r-0"].released_s == state.jct_s
    assert [t.chain for t in state.trials.values()] == [0, 0, 0, 0, 1, 1, 1]
    assert {run.trial: run.max_iterations for run in world.launcher.starts}[4] == 50
    assert Counter(t.phase for t in state.trials.values()) == {TrialPhase.STOPPED: 4, TrialPhase.FINISHED: 3}


def test_chains_in_parallel_have_nodes_of_their_own_and_give_them_back_at_their_own_end():
    world = World()
    chosen = plan([(2, 1), (1, 2)], [(2, 1), (1, 2)], order=ChainOrder.PARALLEL)
    state = world.run(problem(TWO), chosen)
    assert [(s.chain, s.start_s) for s in state.stages] == [(0, 0.0), (1, 0.0), (0, 200.0), (1, 200.0)]
    ends = {s.chain: s.end_s for s in state.stages}
    assert ends == {0: 200.0 + 2 * 126 + 4, 1: 200.0 + 246 + 4}
    assert {node.lane: node.released_s for node in state.nodes.values() if node.released_s > 200} == ends
    assert state.jct_s == max(ends.values())
    book = ledger(state, problem(TWO).cloud)
    assert sum(stage.cost_usd for stage in book.stages) == pytest.approx(book.cost_usd)


def test_chains_that_could_hold_too_many_nodes_together_are_refused_before_anything_is_rented():
    world = World()
    chosen = plan([(5, 1), (1, 2)], [(4, 1), (1, 2)], order=ChainOrder.PARALLEL)
    with pytest.raises(InvalidInput, match="must not exceed max_nodes 8 for all chains together, got 9"):
        world.run(problem(TWO), chosen)
    assert not world.told
    assert not world.provider.books


# Who goes on


def test_the_hook_is_told_one_chain_and_chooses():
    asked = []

    def promote(spec, stage, scores):
        asked.append((len(spec.chains), spec.chains[0][0].trials, stage, dict(scores)))
        return [0, 1] if stage == 0 else None

    state = World(engine={"promote": promote}).run(problem(), WIDE)
    assert state.stages[1].trials == (0, 1)
    assert state.stages[2].trials == (1,)
    assert asked[0] == (1, 4, 0, {0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0})


def test_a_hook_that_answers_wrongly_ends_the_run():
    world = World(engine={"promote": lambda spec, stage, scores: [17]})
    with pytest.raises(PluginConflict):
        world.run(problem(), WIDE)
    assert world.released()
    assert ended(world)[0] is RunEnding.FAILED


def test_scores_may_be_told_in_every_iteration_and_the_last_one_counts():
    world = World(training=worked_training(every_iteration=True, score=lambda trial, done: -trial * done))
    state = world.run(problem(), WIDE)
    assert [s.survivors for s in state.stages] == [(0, 1), (0,), (0,)]
    assert len(state.trials[0].scores) == 70


def test_a_nan_is_a_bad_score_but_no_failure():
    world = World(training=worked_training(score=lambda trial, done: math.nan if trial else 1.0))
    state = world.run(problem(), WIDE)
    assert state.stages[0].survivors == (0, 1)
    assert state.best().trial == 0


# Trials that fail


def test_a_failed_trial_leaves_and_the_rest_goes_on():
    world = World(training=worked_training(failure=lambda run: "ValueError: lr" if run.trial == 3 else ""))
    state = world.run(problem(), WIDE)
    assert state.trials[3].phase is TrialPhase.FAILED
    assert state.stages[0].survivors == (2, 1)
    assert "trial 3 failed and leaves the run: ValueError: lr" in state.warnings


def test_a_rung_that_shrank_below_the_next_stage_promotes_all():
    world = World(training=worked_training(failure=lambda run: f"{run.trial}" if run.trial != 1 else ""))
    state = world.run(problem(), WIDE, hopeless_after=9)
    assert [s.trials for s in state.stages] == [(0, 1, 2, 3), (1,), (1,)]


def test_when_all_trials_of_a_stage_fail_the_first_failure_is_the_runs():
    world = World(training=worked_training(failure=lambda run: f"E{run.trial}" if run.stage else ""))
    with pytest.raises(TrialFailure, match="trial 3, rank 0 failed: E3"):
        world.run(problem(), WIDE)
    assert world.released()
    assert ended(world) == (RunEnding.FAILED, "trial 3, rank 0 failed: E3")


def test_a_function_that_fails_for_every_configuration_ends_the_run_early():
    world = World(training=worked_training(failure=lambda run: "KeyError: 'lr'"))
    with pytest.raises(TrialFailure, match="trial 0, rank 0 failed: KeyError: 'lr'"):
        world.run(problem([[(99, 10), (1, 1)]]), plan([(1, 1), (1, 1)]))
    assert len(world.launcher.starts) == 4
    assert world.released()


def test_failures_of_different_kinds_do_not_end_it_early():
    world = World(training=worked_training(failure=lambda run: f"E{run.trial}" if run.trial < 3 else ""))
    assert world.run(problem(), WIDE).best().trial == 3


def test_failures_after_a_success_do_not_end_it_early():
    world = World(training=worked_training(failure=lambda run: "E" if run.trial else ""))
    assert world.run(problem(), plan([(1, 2), (1, 2), (1, 2)])).best().trial == 0


def test_a_trial_that_cannot_be_started_has_failed():
    world = World()
    world.launcher.refuse = {2: "out of file descriptors"}
    state = world.run(problem(), WIDE)
    assert state.trials[2].cause == "could not be started: out of file descriptors"
    assert state.stages[0].survivors == (3, 1)


def test_only_nan_is_a_failure_of_the_run():
    world = World(training=worked_training(score=lambda trial, done: math.nan))
    with pytest.raises(TrialFailure, match=r"its score \(score\) is NaN, and so is that of every trial of stage 0"):
        world.run(problem(), WIDE)
    assert world.released()


def test_a_function_that_never_reports_fails_with_the_remedy():
    world = World(training=worked_training(score=lambda trial, done: None))
    with pytest.raises(TrialFailure, match=r"never reported its score \(accuracy\) in stage 0; call trial.report"):
        world.run(problem(), WIDE, metric="accuracy")


def test_a_trial_that_says_nothing_for_too_long_is_killed():
    world = World(training=worked_training(hangs=lambda run: run.trial == 0, every_iteration=True))
    state = world.run(problem(), WIDE, patience=10.0, retries=0)
    assert state.trials[0].cause == "made no progress for 160 s: does it hang?"
    assert next(e.t_s for e in world.of(events.TrialFailed)) == 90.0 + 160.0
    assert state.ending is RunEnding.DONE


def test_a_trial_that_speaks_from_time_to_time_is_not_stalled():
    world = World(training=worked_training(every_iteration=True, iteration_s=lambda run: 95.0))
    state = world.run(problem(), WIDE, patience=10.0)
    assert not world.of(events.TrialFailed)
    assert state.ending is RunEnding.DONE


# Nodes that are lost


def test_trials_of_a_lost_node_go_on_from_their_checkpoints_on_another_one():
    world = World()
    world.clock.call_at(250.0, lambda: world.provider.lose("r-1"))
    state = world.run(problem(), WIDE)
    again = [run for run in world.launcher.starts if run.stage == 1]
    assert [(run.trial, run.from_iteration, run.slots[0].node) for run in again] == [
        (3, 10, "r-0"),
        (2, 10, "r-1"),
        (2, 10, "r-0"),
    ]
    assert state.stages[1].end_s == 326.0 + 126.0 + 4.0
    assert [s.survivors for s in state.stages] == [(3, 2), (3,), (3,)]
    assert world.released()
    assert "r-1 was lost: reclaimed" in state.warnings[0]


def test_a_trial_that_spans_a_lost_node_gets_a_new_group():
    world = World()
    world.clock.call_at(400.0, lambda: world.provider.lose("r-0"))
    state = world.run(problem(), WIDE)
    assert world.launcher.starts[-1].slots[0].node == "r-1"
    assert world.launcher.starts[-1].slots[2].node == "r-2"
    assert state.jct_s == 400.0 + 90.0 + 166.0 + 4.0


def test_too_many_losses_end_the_run():
    world = World()
    for when_s in (92.0, 160.0):
        world.clock.call_at(when_s, lambda: [world.provider.lose(node) for node in world.provider.owned("r")])
    with pytest.raises(LaunchFailure, match="nodes were lost 2 times without any checkpoint in between"):
        world.run(problem(), WIDE, max_losses=1)
    assert world.released()


def test_a_run_that_waits_for_what_never_comes_says_so():
    world = World(training=worked_training(hangs=lambda run: True))
    with pytest.raises(LaunchFailure, match="waits for something that never comes"):
        world.run(problem(), WIDE)
    assert world.released()


# Money and other limits


def test_the_money_limit_stops_a_launch_before_it_is_made():
    world = World()
    with pytest.raises(BudgetExceeded, match=r"requesting 2 node\(s\) of type a could bring the bill to 0.1200 usd"):
        world.run(problem(), WIDE, max_usd=0.119)
    assert not world.provider.books


@pytest.mark.parametrize("granularity_s", [1.0, 60.0, 3600.0])
@pytest.mark.parametrize("max_usd", [0.13, 0.3, 0.77])
def test_the_bill_never_exceeds_the_money_limit(granularity_s, max_usd):
    billing = Billing(granularity_s=granularity_s, minimum_s=60.0)
    world = World(training=worked_training(every_iteration=True))
    wanted = problem(billing=billing)
    with pytest.raises(BudgetExceeded):
        world.run(wanted, WIDE, max_usd=max_usd)
    assert world.released()
    assert cost_usd(fold(world.told), wanted.cloud) <= max_usd
    if granularity_s == 1.0:
        assert cost_usd(fold(world.told), wanted.cloud) >= max_usd - 0.005


def test_a_limit_that_is_just_kept_does_not_stop_the_run():
    assert World().run(problem(), WIDE, max_usd=0.943).ending is RunEnding.DONE


@pytest.mark.parametrize(
    ("changes", "problem_text"),
    [
        ({"configs": ()}, "configs: must be one for each of the 4 trials, got 0"),
        ({"mode": "best"}, "mode: must be one of max, min"),
        ({"run": " "}, "run: must be a non-empty string"),
        ({"patience": 0.0}, "patience: must be a finite number above 0"),
        ({"max_usd": -1.0}, "max_usd: must be a finite number above 0"),
        ({"plan": plan([(2, 1)])}, "must be one allocation a stage"),
        ({"plan": plan([(2, 1), (1, 4), (1, 2)])}, r"stages\[1\].nodes: must be at least 2"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_before_anything_happens(changes, problem_text):
    world = World()
    with pytest.raises(InvalidInput, match=problem_text):
        world.run(problem(), WIDE, **changes)
    assert not world.told


# Interruptions and other ends


class Interrupting:
    """An observer that interrupts at the n-th event, as Ctrl-C would."""

    def __init__(self, at, error=KeyboardInterrupt):
        self.left = at
        self.error = error

    def __call__(self, event):
        self.left -= 1
        if self.left == 0:
            raise self.error


def test_an_interrupted_run_saves_gives_back_and_says_so():
    world = World()
    world.clock.call_at(295.0, lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(RunInterrupted, match="every node has been given back"):
        world.run(problem(), WIDE)
    state = fold(world.told)
    assert ended(world)[0] is RunEnding.INTERRUPTED
    assert world.released()
    assert [state.trials[n].last_checkpoint.iterations for n in (2, 3)] == [25, 25]
    assert [state.trials[n].phase for n in (2, 3)] == [TrialPhase.WAITING, TrialPhase.WAITING]
    assert [event.cause for event in world.of(events.TrialInterrupted)] == ["the run was stopped"] * 2
    assert world.clock.now() == 295.0


def test_a_trial_that_does_not_obey_is_killed_after_the_grace_time():
    world = World(training=worked_training(hangs=lambda run: run.trial == 0))
    world.clock.call_at(150.0, lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(RunInterrupted):
        world.run(problem(), WIDE, grace_s=20.0)
    assert world.clock.now() == 170.0
    assert world.released()


def test_a_second_interrupt_does_not_wait_for_the_trials():
    world = World(training=worked_training(hangs=lambda run: run.trial == 0))
    for when_s in (150.0, 151.0):
        world.clock.call_at(when_s, lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(RunInterrupted):
        world.run(problem(), WIDE, grace_s=20.0)
    assert world.clock.now() == 151.0
    assert world.released()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_at_any_event_leaves_nothing_behind(error):
    whole = World()
    whole.run(problem(), WIDE)
    for number in range(1, len(whole.told)):
        world = World(engine={"observers": (Interrupting(number, error),)})
        with pytest.raises(RunInterrupted if error is KeyboardInterrupt else SystemExit):
            world.run(problem(), WIDE)
        assert world.released()
        assert not fold(world.told).held
        assert type(world.told[-1]) is events.RunEnded


class FullLog(MemoryLog):
    """A log on a disk that fills up after so many events."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def append(self, *made):
        if len(self.events) + len(made) > self.room:
            raise UnusableLog("event log cannot be written: No space left on device")
        super().append(*made)


def test_a_disk_that_fills_up_at_any_event_leaves_nothing_behind():
    whole = World()
    whole.run(problem(), WIDE)
    for room in range(len(whole.told)):
        world = World(log=FullLog(room))
        with pytest.raises(UnusableLog, match="No space left"):
            world.run(problem(), WIDE)
        assert world.released()


def test_a_full_disk_for_real_leaves_nothing_behind(tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")
    with EventLog(tmp_path / "log") as log:
        world = World(log=log)
        with pytest.raises(UnusableLog, match="No space left"):
            world.run(problem(), WIDE)
    assert world.released()
    assert not world.provider.books


def test_nodes_that_stay_are_an_error_even_of_a_run_that_went_well():
    world = World()
    world.provider.deaf = 99
    with pytest.raises(LeakedNodes):
        world.run(problem(), WIDE)
    assert ended(world)[0] is RunEnding.FAILED


# What is told


def test_an_observer_that_raises_is_reported_once_and_stops_nothing():
    class Broken(Exception):
        pass

    def observer(event):
        raise Broken("oh")

    state = World(engine={"observers": (observer,)}).run(problem(), WIDE)
    assert state.ending is RunEnding.DONE
    assert [text for text in state.warnings if "Broken: oh; the run goes on" in text] == state.warnings


def test_observers_are_told_after_the_log():
    log = MemoryLog()
    seen = []
    world = World(log=log, engine={"observers": (lambda event: seen.append(event in log.events),)})
    world.run(problem(), WIDE)
    assert seen
    assert all(seen)


class Ping(Message):
    """A message that only an adapter knows."""


class Pong(Message):
    """Its answer."""


def test_messages_that_the_engine_does_not_know_go_to_the_adapter_and_its_answer_back():
    world = World(engine={"on_message": lambda trial, rank, message: Pong() if trial else None})
    start = world.launcher.start

    def chatty(run, inbox):
        handle = start(run, inbox)
        handle._tell(Ping())
        handle._tell(Remark(text="BatchNorm sees a share"))
        return handle

    world.launcher.start = chatty
    state = world.run(problem(), plan([(2, 1), (1, 2), (1, 2)]))
    assert {(trial, rank, type(message)) for trial, rank, message in world.launcher.sent} == {
        (trial, 0, Pong) for trial in (1, 2, 3)
    }
    assert state.warnings == ["BatchNorm sees a share"]


@pytest.mark.parametrize(
    ("read", "warning"),
    [
        ((), "never read its configuration (depth, lr): all trials train alike"),
        (("lr",), "never read depth of its configuration"),
        (("lr", "depth"), None),
        (None, None),
    ],
)
def test_a_configuration_that_is_not_read_is_warned_of(read, warning):
    world = World()
    start = world.launcher.start

    def reading(run, inbox):
        handle = start(run, inbox)
        tell = handle._tell

        def spoken(message):
            if type(message).__name__ != "ConfigRead":
                tell(message)
            elif read is not None:
                tell(type(message)(keys=read))

        handle._tell = spoken
        return handle

    world.launcher.start = reading
    configs = tuple({"lr": n, "depth": 2} for n in range(4))
    state = world.run(problem(), WIDE, configs=configs)
    assert [warning in text for text in state.warnings] == ([True] if warning else [])


# The log


def test_the_state_of_every_prefix_of_the_log_is_the_state_in_memory_then(tmp_path):
    failing = worked_training(failure=lambda run: "boom" if (run.trial, run.stage) == (2, 1) else "")
    snapshots = []
    mirror = RunState()

    def watch(event):
        snapshots.append(repr(apply(mirror, event)))

    with EventLog(tmp_path / "log") as log:
        world = World(training=failing, log=log, engine={"observers": (watch,)})
        world.clock.call_at(150.0, lambda: world.provider.lose("r-1"))
        configs = tuple({"clip": math.inf, "sizes": (n, 2)} for n in range(4))
        state = world.run(problem(), WIDE, configs=configs)
    assert snapshots[-1] == repr(state)
    lines = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    for number, snapshot in enumerate(snapshots, start=1):
        (tmp_path / "prefix").write_bytes(b"".join(lines[:number]))
        assert repr(fold(read_log(tmp_path / "prefix").events)) == snapshot


def test_the_same_run_writes_the_same_log():
    def log():
        world = World()
        world.run(problem(TWO), plan([(2, 1), (1, 2)], [(2, 1), (1, 2)], order=ChainOrder.PARALLEL))
        return [line(event).replace(world.clock.origin, "") for event in world.told]

    assert log() == log()


# Any small plan


@st.composite
def jobs(draw):
    """A problem with a plan for it, the scores of all trials, and what goes wrong."""
    slots = draw(st.sampled_from([1, 2, 3]))
    chains, chosen = [], []
    for _ in range(draw(st.integers(1, 2))):
        widths = sorted(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)), reverse=True)
        chains.append([(n, draw(st.integers(1, 3))) for n in widths])
        chosen.append(
            [
                (w, draw(st.integers(max(1, w // slots), 4)))
                for w in (
                    draw(st.sampled_from([w for w in (1, 2, slots, 2 * slots) if w <= slots or w % slots == 0]))
                    for _ in widths
                )
            ]
        )
    order = draw(st.sampled_from(list(ChainOrder)))
    wanted = problem(
        chains,
        slots=slots,
        billing=Billing(granularity_s=draw(st.sampled_from([1.0, 60.0])), minimum_s=draw(st.sampled_from([0.0, 60.0]))),
        dataset_gib=draw(st.sampled_from([0.0, 0.25])),
        widths={1: 11.0, 2: 6.0, 3: 5.0, 4: 4.0, 6: 3.5},
    )
    kinds = "".join(draw(st.sampled_from("ab")) for chain in chains for _ in chain)
    allocation = plan(*[[(m, w) for w, m in chain] for chain in chosen], order=order, kinds=kinds)
    seconds = draw(st.lists(st.sampled_from([0.5, 1.0, 7.0, 40.0]), min_size=1, max_size=5))
    scores = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, math.nan]), min_size=1, max_size=7))
    doomed = draw(st.sets(st.tuples(st.integers(0, 11), st.integers(0, 2)), max_size=3))
    loss_s = draw(st.none() | st.sampled_from([0.0, 35.0, 95.0, 120.0]))
    return wanted, allocation, seconds, scores, doomed, loss_s


@settings(max_examples=150, deadline=None, derandomize=True)
@given(jobs())
def test_any_plan_runs_within_its_limits(job):
    wanted, allocation, seconds, scores, doomed, loss_s = job
    chains = wanted.experiment.chains

    def score(trial, done):
        return 1.0 if trial == 0 else scores[(trial + done) % len(scores)]

    world = World(
        training=FakeTraining(
            start_s=1.0,
            iteration_s=lambda run: seconds[run.trial % len(seconds)],
            score=score,
            failure=lambda run: f"E{run.trial}" if (run.trial, run.stage) in doomed and run.trial else "",
        )
    )
    world.provider.most_held = 0
    if loss_s is not None:
        world.clock.call_at(loss_s, lambda: world.provider.lose((world.provider.owned("r") or ["none"])[0]))
    log = MemoryLog()
    world.log = log
    try:
        state = world.run(wanted, allocation)
    except TrialFailure:
        # A chain in which nothing is left, or nothing but NaN.
        state = fold(log.events)
    assert world.released()
    assert not state.held
    assert not state.training
    assert repr(state) == repr(fold(log.events))

    # Never more nodes than the limit, nor in a lane more than its stage has.
    assert world.provider.most_held <= wanted.cloud.max_nodes
    if len(chains) == 1 or allocation.order is ChainOrder.SEQUENTIAL:
        assert world.provider.most_held <= max(a.nodes for chain in allocation.chains for a in chain)

    # The bill is that of the provider's own books.
    own = world.billed_usd(wanted.cloud)
    book = ledger(state, wanted.cloud)
    assert book.cost_usd == pytest.approx(own)
    assert sum(stage.cost_usd for stage in book.stages) == pytest.approx(own)

    # Forward only: every start goes on where the trial's last checkpoint stands.
    done = dict.fromkeys(state.trials, 0)
    for event in log.events:
        if type(event) is events.TrialStarted:
            assert event.from_iteration == done[event.trial]
        elif type(event) is events.TrialSaved:
            assert event.iterations > done[event.trial]
            done[event.trial] = event.iterations

    # The best go on, by an independent choice.
    for stage in state.stages:
        if stage.end_s is None:
            continue
        ends = sum(s.iterations for s in chains[stage.chain][: stage.stage + 1])
        alive = {t: score(t, ends) for t in stage.trials if (t, stage.stage) not in doomed or t == 0}
        after = stage.stage + 1
        keep = chains[stage.chain][after].trials if after < len(chains[stage.chain]) else len(alive)
        assert stage.survivors == best_of(alive, min(keep, len(alive)), "max")
        assert set(stage.survivors) | set(stage.stopped) == set(alive)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(jobs())
def test_places_are_never_shared_and_as_wide_as_planned(job):
    wanted, allocation, seconds, _, _, _ = job
    world = World(
        training=FakeTraining(iteration_s=lambda run: seconds[run.trial % len(seconds)], score=lambda trial, done: 1.0)
    )
    start, held = world.launcher.start, {}

    def checked(run, inbox):
        busy = {place for live in world.launcher.live for place in held[live]}
        held[run.trial] = {(slot.node, slot.index) for slot in run.slots}
        assert len(held[run.trial]) == len(run.slots)
        assert busy.isdisjoint(held[run.trial])
        return start(run, inbox)

    world.launcher.start = checked
    assert world.run(wanted, allocation).ending is RunEnding.DONE
    for event in world.of(events.TrialStarted):
        assert event.slots == allocation.chains[event.chain][event.stage].slots_per_trial


@settings(max_examples=100, deadline=None, derandomize=True)
@given(jobs())
def test_a_run_takes_the_time_and_money_that_the_model_says(job):
    wanted, allocation, _, _, _, _ = job
    profile = wanted.profile
    world = World(
        training=FakeTraining(
            start_s=profile.start_s.mean,
            iteration_s=lambda run: profile.iteration_s[len(run.slots)].mean,
            save_s=profile.save_s.mean,
            score=lambda trial, done: 1.0,
        )
    )
    state = world.run(wanted, allocation, sync_s=profile.sync_s)
    estimate = simulate(wanted, allocation, samples=1, rng=np.random.default_rng(0))
    book = ledger(state, wanted.cloud)
    assert state.jct_s == pytest.approx(estimate.jct_s[0])
    assert book.cost_usd == pytest.approx(estimate.cost_usd[0])
    lived = {(stage.chain, stage.stage): stage for stage in book.stages}
    for stage in estimate.stages:
        seen = lived[stage.chain, stage.stage]
        assert (seen.start_s, seen.end_s) == pytest.approx((stage.start_s[0], stage.end_s[0]))
        assert seen.cost_usd == pytest.approx(stage.cost_usd[0])
        assert seen.idle_fraction == pytest.approx(stage.idle_fraction[0])
