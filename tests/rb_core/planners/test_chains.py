"""Several chains under one node limit, against every plan there is of each chain and every way to combine them."""

import dataclasses
import itertools

import numpy as np
import pytest
from definitions import played
from model_reference import every_plan, play, random_problem, undominated, worked_problem

from rb_core.dag import ExecutionDAG
from rb_core.errors import NoFeasiblePlan
from rb_core.expectation import ExpectedModel, expected
from rb_core.hardware import Latency
from rb_core.plan import AllocationPlan, ChainOrder, Objective, StageAllocation
from rb_core.planners.candidate import Candidate
from rb_core.planners.chains import Share, best_splits, side_by_side
from rb_core.planners.exact import Exact, front
from rb_core.planners.fastest import fastest
from rb_core.planners.objective import resolve
from rb_core.simulate import simulate
from rb_core.spec import ExperimentSpec

CLOSE_S, CLOSE_USD = 1e-3, 1e-6


def asking(problem, **objective):
    return dataclasses.replace(problem, objective=Objective(**objective))


def with_chains(problem, *chains, max_nodes=None):
    cloud = dataclasses.replace(problem.cloud, max_nodes=max_nodes or problem.cloud.max_nodes)
    return dataclasses.replace(problem, experiment=ExperimentSpec(chains=chains), cloud=cloud)


def several(seed, *, chains, stages, nodes):
    """A random problem of several chains."""
    rng = np.random.default_rng([seed, chains, nodes])
    problem = random_problem(rng, stages=stages, nodes=nodes, trials=6)
    more = [random_problem(rng, stages=stages, trials=6).experiment.chains[0] for _ in range(chains - 1)]
    return with_chains(problem, problem.experiment.chains[0], *more, max_nodes=int(rng.integers(chains, nodes + 1)))


def every_split(problem):
    """(jct_s, cost_usd) of all plans side by side that keep the node limit.

    Of the plans of one chain only those are combined that none with as few nodes beats in both.
    """
    combined = [(0.0, 0.0, 0)]
    for chain in problem.experiment.chains:
        plans = [(t, usd, max(a.nodes for a in taken)) for t, usd, taken in every_plan(with_chains(problem, chain))]
        best = []
        for plan in sorted(plans):
            if not any(all(x <= y for x, y in zip(other, plan, strict=True)) for other in best):
                best.append(plan)
        combined = [
            (max(t, more_s), usd + more_usd, nodes + more_nodes)
            for (t, usd, nodes), (more_s, more_usd, more_nodes) in itertools.product(combined, best)
            if nodes + more_nodes <= problem.cloud.max_nodes
        ]
    return [plan[:2] for plan in combined]


def once(problem, plan):
    """(jct_s, cost_usd) in the plain model, whatever the order of the chains."""
    return play(problem, plan, 1, np.random.default_rng(0))[0][:2]


def agrees(problem, note=None):
    """The front is that of all plans, in a row and side by side; returns the orders that it holds."""
    plans = [*(plan[:2] for plan in every_plan(problem)), *every_split(problem)]
    if not plans:
        with pytest.raises(NoFeasiblePlan, match="no trial fits"):
            front(ExpectedModel(problem))
        return set()
    candidates, wanted = front(ExpectedModel(problem)), undominated(plans)
    got = undominated([(candidate.jct_s, candidate.cost_usd) for candidate in candidates])
    assert len(got) == len(candidates), note
    assert [t for t, _ in got] == pytest.approx([t for t, _ in wanted], abs=CLOSE_S), note
    assert [usd for _, usd in got] == pytest.approx([usd for _, usd in wanted], abs=CLOSE_USD), note
    for candidate in candidates:
        plan = candidate.plan(problem)
        ExecutionDAG.build(problem, plan)  # refuses what is above the limit
        assert (candidate.jct_s, candidate.cost_usd) == pytest.approx(once(problem, plan), abs=CLOSE_USD), note
    assert fastest(ExpectedModel(problem)).jct_s == pytest.approx(wanted[0][0], abs=CLOSE_S), note
    return {candidate.order for candidate in candidates}


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (120, {"chains": 2, "stages": 2, "nodes": 3}),
        (60, {"chains": 2, "stages": 1, "nodes": 6}),
        (60, {"chains": 3, "stages": 1, "nodes": 4}),
    ],
    ids=["two-chains", "many-nodes", "three-chains"],
)
def test_the_front_is_that_of_all_plans_in_a_row_and_side_by_side(count, sizes):
    orders = [agrees(several(seed, **sizes), seed) for seed in range(count)]
    assert sum(ChainOrder.PARALLEL in seen for seen in orders) > count / 4
    assert sum(ChainOrder.SEQUENTIAL in seen for seen in orders) > count / 4


def test_hyperband_is_planned_as_all_its_plans_say():
    problem = with_chains(worked_problem(), *ExperimentSpec.hyperband(R=4, eta=2).chains[1:], max_nodes=4)
    assert agrees(problem) == set(ChainOrder)


def test_fewer_nodes_than_chains_leave_only_one_after_another():
    chains = [((2, 3),), ((1, 5),), ((1, 2),)]
    chains = [ExperimentSpec.from_stages(chain).chains[0] for chain in chains]
    problem = with_chains(worked_problem(), *chains, max_nodes=2)
    assert side_by_side(ExpectedModel(problem)) == []
    assert agrees(problem) == {ChainOrder.SEQUENTIAL}


def test_one_chain_has_nothing_beside_it():
    assert all(candidate.order is ChainOrder.SEQUENTIAL for candidate in front(ExpectedModel(worked_problem())))


@pytest.mark.parametrize("objective", ["deadline_s", "budget_usd"])
def test_the_answer_keeps_its_limit_and_is_the_best_of_all_plans(objective):
    checked = 0
    for seed in range(40):
        problem = several(seed, chains=2, stages=2, nodes=3)
        plans = [*(plan[:2] for plan in every_plan(problem)), *every_split(problem)]
        limited, wanted = (0, 1) if objective == "deadline_s" else (1, 0)
        limit = float(np.median([plan[limited] for plan in plans])) if plans else 0.0
        if limit <= 0:
            continue
        plan = Exact().plan(asking(problem, **{objective: limit}), np.random.default_rng(seed))
        got = once(problem, plan)
        assert got[limited] <= limit + CLOSE_USD, seed
        best = min(other[wanted] for other in plans if other[limited] <= limit)
        assert got[wanted] == pytest.approx(best, abs=CLOSE_S if wanted == 0 else CLOSE_USD), seed
        checked += 1
    assert checked > 30


def hyperband(max_nodes, largest=27):
    return with_chains(worked_problem(), *ExperimentSpec.hyperband(R=largest, eta=3).chains, max_nodes=max_nodes)


@pytest.mark.parametrize("max_nodes", [3, 4, 9, 24])
def test_hyperband_is_never_above_the_limit_nor_worse_than_one_after_another(max_nodes):
    problem = hyperband(max_nodes)
    candidates = front(ExpectedModel(problem))
    assert (ChainOrder.PARALLEL in {c.order for c in candidates}) == (max_nodes >= 4)
    for candidate in candidates:
        lanes = ExecutionDAG.build(problem, candidate.plan(problem)).lanes
        assert sum(max(step.placement.nodes for step in lane) for lane in lanes) <= max_nodes
        assert (candidate.jct_s, candidate.cost_usd) == pytest.approx(once(problem, candidate.plan(problem)))
    for nodes in range(1, max_nodes + 1):
        for width in (1, 2, 4):
            if width <= 2 * nodes:
                allocation = StageAllocation(instance_type="a", nodes=nodes, slots_per_trial=width)
                chains = tuple(tuple(allocation for _ in chain) for chain in problem.experiment.chains)
                jct_s, usd = played(problem, AllocationPlan(chains=chains))
                assert min(c.cost_usd for c in candidates if c.jct_s <= jct_s + CLOSE_S) <= usd + CLOSE_USD


def test_more_nodes_never_make_it_dearer_or_later():
    fronts = [front(ExpectedModel(hyperband(nodes, largest=9))) for nodes in (2, 3, 4, 6, 10)]
    for less, more in itertools.pairwise(fronts):
        for plan in less:
            assert any(c.jct_s <= plan.jct_s + CLOSE_S and c.cost_usd <= plan.cost_usd + CLOSE_USD for c in more)


def test_shares_are_split_as_all_splits_say():
    def plan(jct_s, usd):
        return Candidate(allocations=(), jct_s=float(jct_s), cost_usd=float(usd))

    for seed in range(60):
        rng = np.random.default_rng(seed)
        chains = []
        for _ in range(int(rng.integers(1, 5))):
            shares = []
            for nodes in sorted(rng.choice(np.arange(1, 6), size=3, replace=False)):
                times = np.sort(rng.choice(60, size=3, replace=False))
                bills = np.sort(rng.choice(60, size=3, replace=False))[::-1]
                plans = tuple(plan(t, usd) for t, usd in zip(times, bills, strict=True))
                shares.append(Share(nodes=int(nodes), plans=plans))
            chains.append(shares)
        most = sum(min(share.nodes for share in shares) for shares in chains) + int(rng.integers(0, 5))
        splits = [
            (max(p.jct_s for p in plans), sum(p.cost_usd for p in plans))
            for taken in itertools.product(*chains)
            if sum(share.nodes for share in taken) <= most
            for plans in itertools.product(*(share.plans for share in taken))
        ]
        got = [(c.jct_s, c.cost_usd) for c in best_splits(chains, most)]
        assert np.array(got) == pytest.approx(np.array(undominated(splits))), seed


def test_a_multiple_of_the_fastest_time_is_one_of_the_fastest_of_both_orders():
    problem = hyperband(8)
    quickest = front(ExpectedModel(problem))[0]
    assert quickest.order is ChainOrder.PARALLEL
    assert resolve(asking(problem, deadline_factor=1.5)).objective.deadline_s == pytest.approx(1.5 * quickest.jct_s)
    plan = Exact().plan(asking(problem, deadline_factor=1.0), np.random.default_rng(0))
    assert once(problem, plan)[0] == pytest.approx(quickest.jct_s)


def test_out_of_reach_is_told_with_the_nearest_of_both_orders():
    problem = hyperband(8)
    quickest = front(ExpectedModel(problem))[0]
    with pytest.raises(NoFeasiblePlan, match=r"fastest plan of planner exact needs .* raise the deadline") as caught:
        Exact().plan(asking(problem, deadline_s=quickest.jct_s * 0.9), np.random.default_rng(0))
    assert caught.value.nearest["jct_s"] == pytest.approx(quickest.jct_s)


def noisy(max_nodes=8):
    problem = hyperband(max_nodes, largest=9)
    profile = dataclasses.replace(
        problem.profile,
        trial_cv=0.2,
        iteration_s={w: Latency(mean=at.mean, std=0.05 * at.mean) for w, at in problem.profile.iteration_s.items()},
    )
    return dataclasses.replace(problem, profile=profile)


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_under_noise_the_limit_holds_side_by_side(confidence):
    problem = noisy()
    deadline_s = 1.3 * expected(problem, fastest(ExpectedModel(problem)).plan(problem))[0]
    plan = Exact().plan(asking(problem, deadline_s=deadline_s, confidence=confidence), np.random.default_rng(0))
    assert plan.order is ChainOrder.PARALLEL
    estimate = simulate(problem, plan, samples=20_000, rng=np.random.default_rng(1))
    if confidence is None:
        assert estimate.jct_s.mean() <= deadline_s * 1.01
    else:
        assert np.mean(estimate.jct_s <= deadline_s) > confidence - 0.03


def test_under_noise_the_front_says_the_means_of_its_plans():
    problem = noisy()
    candidates = front(ExpectedModel(problem))
    assert ChainOrder.PARALLEL in {c.order for c in candidates}
    for candidate in candidates:
        estimate = simulate(problem, candidate.plan(problem), samples=20_000, rng=np.random.default_rng(1))
        assert candidate.jct_s == pytest.approx(estimate.jct_s.mean(), rel=0.02)
        assert candidate.cost_usd == pytest.approx(estimate.cost_usd.mean(), rel=0.02)
