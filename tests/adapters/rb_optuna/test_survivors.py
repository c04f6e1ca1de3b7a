"""Who survives which rung: the executor against successive halving as a textbook has it, on random tables of scores."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import islice, zip_longest

import optuna
import pytest
from optuna.trial import TrialState
from rb_optuna import RubberBandExecutor, inlined

from rb_core.clock import ManualClock
from rb_core.testing.fakes import FakeProvider

INLINE_TABLES = 500
PART = 100
HYPERBAND_TABLES = 60
SHUFFLED_TABLES = 60
PROCESS_TABLES = 5


@dataclass(frozen=True, kw_only=True)
class Table:
    """What every trial would report, and how it would end.

    Attributes:
        scores: of each trial, after 1, 2, ... iterations.
        ends: trials that end by themselves before they report so many iterations, and how.
    """

    direction: str
    reduction_factor: int
    min_resource: int
    max_resource: int
    first_step: int
    stride: int
    scores: tuple[tuple[float, ...], ...]
    ends: dict[int, tuple[int, str]]

    def __call__(self, trial):
        """The objective."""
        at, how = self.ends.get(trial.number, (0, ""))
        for done in self.reported:
            if at and done >= at:
                if how == "fails":
                    raise RuntimeError("of its own")
                return 1.0
            trial.report(self.scores[trial.number][done - 1], done - 1 + self.first_step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return 1.0

    @property
    def reported(self):
        """Iterations after which trials report."""
        return [*range(self.stride, self.max_resource, self.stride), self.max_resource]


def drawn(seed, trials=None):
    """A table by its number, of so many trials or of some."""
    draw = random.Random(seed)
    factor, least = draw.choice([2, 3, 4]), draw.choice([1, 2, 3])
    rungs = draw.choice([1, 2, 3] if factor == 2 else [1, 2])
    most = draw.randint(least * factor ** (rungs - 1) + 1, least * factor**rungs)
    first_step = draw.choice([0, 1])
    some = draw.randint(1, 2 * factor**rungs if draw.random() < 0.1 else factor**rungs)
    trials = some if trials is None else trials
    special = draw.random() < 0.5
    coarse = draw.random() < 0.5

    def score():
        if special and draw.random() < 0.3:
            return draw.choice([math.nan, math.inf, -math.inf])
        return float(draw.randrange(4)) if coarse else draw.gauss(0, 1)

    ending = draw.choice([0.0, 0.0, 0.3])
    return Table(
        direction=draw.choice(["minimize", "maximize"]),
        reduction_factor=factor,
        min_resource=least,
        max_resource=most,
        first_step=first_step,
        # Where the first report is not of the first step, steps must count from 1 to say what they mean.
        stride=draw.choice([1, 1, 2, 3]) if first_step == 1 else 1,
        scores=tuple(tuple(score() for _ in range(most)) for _ in range(trials)),
        ends={
            number: (draw.randint(1, most), draw.choice(["fails", "returns"]))
            for number in range(trials)
            if draw.random() < ending
        },
    )


def expected(table, brackets=None):
    """How each trial ends and how often it reports, bracket by bracket: trials and their rungs."""
    ends, numbers = {}, iter(range(len(table.scores)))
    for rungs in brackets or halvings(table):
        halve(table, list(islice(numbers, rungs[0][0])), rungs, ends)
    return [ends[number] for number in range(len(table.scores))]


def halvings(table):
    """Rounds of successive halving: how many trials run up to how many iterations."""
    full, top = 1, table.min_resource
    while top < table.max_resource:
        full, top = full * table.reduction_factor, top * table.reduction_factor
    for first in range(0, len(table.scores), full):
        width, rung = min(full, len(table.scores) - first), table.min_resource
        rungs = []
        while width > 1 and rung < table.max_resource:
            rungs.append((width, rung))
            width, rung = max(1, width // table.reduction_factor), rung * table.reduction_factor
        yield [*rungs, (width, table.max_resource)]


def hyperband(table):
    """The brackets of Hyperband, as in its paper: s is how often trials are dropped."""
    factor, most = table.reduction_factor, table.max_resource
    s_max = max(s for s in range(20) if table.min_resource * factor**s <= most)
    for s in range(s_max, -1, -1):
        width = math.ceil((s_max + 1) / (s + 1) * factor**s)
        yield [(width // factor**i, most // factor ** (s - i)) for i in range(s + 1)]


def halve(table, field, rungs, ends):
    sign = -1 if table.direction == "maximize" else 1
    for (_, rung), (width, _) in zip_longest(rungs, rungs[1:], fillvalue=(None, None)):
        seen = next(done for done in table.reported if done >= rung)
        there = []
        for number in field:
            at, how = table.ends.get(number, (math.inf, ""))
            stopped = next((done for done in table.reported if done >= at), math.inf)
            if stopped <= seen:
                ends[number] = ("FAIL" if how == "fails" else "COMPLETE", table.reported.index(stopped))
            else:
                there.append(number)
        if width is None:
            ends.update({number: ("COMPLETE", len(table.reported)) for number in there})
            return

        def rank(number, at=seen - 1):
            score = table.scores[number][at]
            return (1, 0.0, number) if math.isnan(score) else (0, sign * score, number)

        hopeless = all(math.isnan(table.scores[number][seen - 1]) for number in there)
        field = [] if hopeless else sorted(there, key=rank)[:width]
        ends.update({number: ("PRUNED", table.reported.index(seen) + 1) for number in there if number not in field})


def run(table, objective=None, **options):
    """The same, by the executor."""
    study = optuna.create_study(direction=table.direction, sampler=optuna.samplers.RandomSampler(seed=0))
    RubberBandExecutor(
        study,
        max_resource=table.max_resource,
        min_resource=table.min_resource,
        reduction_factor=table.reduction_factor,
        **options,
    ).optimize(objective or table, n_trials=len(table.scores), catch=RuntimeError)
    return [(trial.state.name, len(trial.intermediate_values)) for trial in study.get_trials(deepcopy=False)]


@pytest.fixture(autouse=True)
def quiet():
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    yield
    optuna.logging.set_verbosity(level)


@pytest.mark.parametrize("part", range(INLINE_TABLES // PART))
def test_survivors_are_those_of_the_reference(part):
    for seed in range(part * PART, (part + 1) * PART):
        table = drawn(seed)
        assert run(table, launcher="inline") == expected(table), f"seed {seed}"


def test_survivors_of_hyperband_are_those_of_each_of_its_brackets():
    for seed in range(3000, 3000 + HYPERBAND_TABLES):
        brackets = list(hyperband(drawn(seed)))
        table = drawn(seed, trials=sum(rungs[0][0] for rungs in brackets))
        assert run(table, launcher="inline", hyperband=True) == expected(table, brackets), f"seed {seed}"


class ShuffledClock(ManualClock):
    """Whatever is due happens in some order."""

    shuffle = random.Random(0)

    def call_at(self, when_s, action):
        return super().call_at(when_s + self.shuffle.random(), action)


def test_survivors_do_not_depend_on_the_order_in_which_trials_come_to_a_rung(monkeypatch):
    free_cloud, opened = inlined.free_cloud, []
    monkeypatch.setattr(inlined, "SystemClock", ShuffledClock)
    monkeypatch.setattr(inlined, "free_cloud", lambda name, nodes: free_cloud(name, 4))
    monkeypatch.setattr(inlined, "LocalProvider", lambda cloud, clock, inbox, slots: FakeProvider(clock, inbox))
    for seed in range(1000, 1000 + SHUFFLED_TABLES):
        table = drawn(seed)
        calls = []

        def objective(trial, table=table, calls=calls):
            calls.append(trial.number)
            return table(trial)

        assert run(table, objective, launcher="inline") == expected(table), f"seed {seed}"
        opened.append(calls)
    assert sum(calls != sorted(calls) for calls in opened) > SHUFFLED_TABLES / 3


def test_survivors_are_the_same_in_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("RB_HOME", str(tmp_path))
    for seed in range(2000, 2000 + PROCESS_TABLES):
        table = drawn(seed)
        assert run(table, launcher="process") == expected(table), f"seed {seed}"


def test_the_tables_hold_what_they_are_to_hold():
    tables = [drawn(seed) for seed in range(INLINE_TABLES)]
    scores = [score for table in tables for row in table.scores for score in row]
    assert any(math.isnan(score) for score in scores)
    assert {math.inf, -math.inf} <= set(scores)
    assert {table.direction for table in tables} == {"minimize", "maximize"}
    assert {(table.reduction_factor, table.min_resource) for table in tables} == {
        (factor, least) for factor in (2, 3, 4) for least in (1, 2, 3)
    }
    assert {(table.first_step, table.stride) for table in tables} == {(0, 1), (1, 1), (1, 2), (1, 3)}
    assert {how for table in tables for _, how in table.ends.values()} == {"fails", "returns"}
    states = {state for table in tables for state, _ in expected(table)}
    assert states == {TrialState.COMPLETE.name, TrialState.PRUNED.name, TrialState.FAIL.name}
