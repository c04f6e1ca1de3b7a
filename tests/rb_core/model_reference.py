"""The model in plain Python, one job at a time: what simulator, expectation and planners are held against.

Written from the definitions alone (stages, nodes, bill) and sharing nothing with the code under test but its values
and, where a job is random, its stream of random numbers.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from rb_core.draws import Draws
from rb_core.hardware import Billing, BillingMode, Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, ChainOrder, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec


@dataclass(frozen=True)
class Node:
    """One requested node; `order` numbers the requests."""

    order: int
    running_s: float
    usable_s: float


@dataclass(frozen=True)
class Share:
    """What a stage took: its barriers, the cost that accrued, the slot-seconds trained and billed."""

    start_s: float
    end_s: float
    cost_usd: float
    trained_slot_s: float
    billed_slot_s: float


def node_usd(billing: Billing, usd_per_s: float, data_usd: float, running_s: float, released_s: float) -> float:
    """The bill of one node, trainings under per_function left out."""
    if released_s < running_s:
        return 0.0
    if billing.mode is BillingMode.PER_FUNCTION:
        return data_usd
    granules = math.ceil((released_s - running_s - 1e-6) / billing.granularity_s)
    return max(granules * billing.granularity_s, billing.minimum_s) * usd_per_s + data_usd


def fits(trials_wide: int, node_slots: int, nodes: int) -> bool:
    """Whether one trial of that many slots can be laid on the nodes."""
    if trials_wide <= node_slots:
        return nodes >= 1
    return trials_wide % node_slots == 0 and nodes >= trials_wide // node_slots


def kept_and_released(held: list[Node], count: int, now_s: float) -> tuple[list[Node], list[Node]]:
    """The nodes that stay at a barrier, and the others."""
    usable = sorted((n for n in held if n.usable_s <= now_s), key=lambda n: (n.usable_s, n.order))
    starting = sorted((n for n in held if n.usable_s > now_s), key=lambda n: n.order)
    order = usable + starting
    return order[:count], order[count:]


def places_of(
    nodes: list[Node], now_s: float, node_slots: int, width: int
) -> list[tuple[float, int, tuple[Node, ...]]]:
    """(when it is usable, its number, its nodes) of every place, nodes taken in the order in which they are usable."""
    ready = sorted(nodes, key=lambda node: max(now_s, node.usable_s))
    if width <= node_slots:
        groups = [(node,) for node in ready for _ in range(node_slots // width)]
    else:
        size = width // node_slots
        groups = [tuple(ready[first : first + size]) for first in range(0, len(ready) - size + 1, size)]
    return [(max(now_s, group[-1].usable_s), number, group) for number, group in enumerate(groups)]


def trainings(
    nodes: list[Node], now_s: float, node_slots: int, width: int, durations: list[float]
) -> list[tuple[float, float, tuple[Node, ...]]]:
    """(start, end, nodes) of each trial, trials taking in order the place that is usable and free earliest."""
    places = places_of(nodes, now_s, node_slots, width)
    heapq.heapify(places)
    taken = []
    for duration in durations:
        start_s, number, group = heapq.heappop(places)
        heapq.heappush(places, (start_s + duration, number, group))
        taken.append((start_s, start_s + duration, group))
    return taken


def given_back_early(
    nodes: list[Node], now_s: float, taken: list[tuple[float, float, tuple[Node, ...]]], kept: int, barrier_s: float
) -> dict[int, float]:
    """When nodes go before a barrier, by `order`: those that are idle first, while more than `kept` are usable."""
    last_start_s = max(start_s for start_s, _, _ in taken)
    falling_idle = []
    for rank, node in enumerate(sorted(nodes, key=lambda node: max(now_s, node.usable_s))):
        mine = [(end_s, number) for number, (_, end_s, group) in enumerate(taken) if node in group]
        since_s = max([now_s, node.usable_s, last_start_s, *(end_s for end_s, _ in mine)])
        falling_idle.append((since_s, max(mine)[1] if mine else -1, rank, node.order))
    early = {}
    for usable_s in sorted(max(now_s, node.usable_s) for node in nodes)[kept:]:
        # Whatever idles already when one node more becomes usable: the one that was usable first.
        now = [(max(since, usable_s), last if since > usable_s else -1, *rest) for since, last, *rest in falling_idle]
        at_s, _, _, order = min(now)
        falling_idle = [idle for idle in falling_idle if idle[-1] != order]
        if at_s <= barrier_s:
            early[order] = at_s
    return early


def play(
    problem: Problem, plan: AllocationPlan, samples: int, rng: np.random.Generator
) -> list[tuple[float, float, list[Share]]]:
    """(jct_s, cost_usd, shares of the stages) of every sample."""
    draws = Draws(problem, samples, rng)
    profile, cloud = problem.profile, problem.cloud
    trained: dict[tuple[int, int], np.ndarray] = {}
    launched: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
    lanes: list[list[tuple[int, int, StageAllocation]]] = []
    for c, allocations in enumerate(plan.chains):
        factors = np.broadcast_to(draws.factors(c), (problem.experiment.chains[c][0].trials, samples))
        if not lanes or plan.order is ChainOrder.PARALLEL:
            lanes.append([])
        for k, allocation in enumerate(allocations):
            kind = cloud.instance_type(allocation.instance_type)
            trials = problem.experiment.chains[c][k].trials
            slow = (1 + profile.spread_penalty if allocation.slots_per_trial > kind.slots else 1) / kind.speed
            durations = draws.trainings(
                c, k, slots_per_trial=allocation.slots_per_trial, factor=slow * factors[:trials]
            )
            trained[c, k] = np.broadcast_to(durations, (trials, samples))
            launch, init = draws.nodes(c, k, allocation.nodes)
            shape = (allocation.nodes, samples)
            launched[c, k] = np.broadcast_to(launch, shape), np.broadcast_to(init, shape)
            lanes[-1].append((c, k, allocation))
    jobs = []
    for sample in range(samples):
        shares: list[Share] = []
        total, jct_s = 0.0, 0.0
        for lane in lanes:
            end_s, usd, stages = _play_lane(problem, lane, trained, launched, sample)
            jct_s, total = max(jct_s, end_s), total + usd
            shares += stages
        jobs.append((jct_s, total, shares))
    return jobs


@dataclass(frozen=True)
class _Life:
    """A node from its running to its release, with the stages in which it was requested and given back."""

    kind: InstanceType
    running_s: float
    released_s: float
    requested_in: int
    released_in: int


def _play_lane(problem, lane, trained, launched, sample):
    cloud = problem.cloud
    now_s, total = 0.0, 0.0
    held: list[Node] = []
    held_type: InstanceType | None = None
    requested_in: list[int] = []
    rows: list[tuple[float, float, float, InstanceType]] = []
    lives: list[_Life] = []

    def give_back(nodes: list[Node]) -> None:
        for node in nodes:
            lives.append(_Life(held_type, node.running_s, now_s, requested_in[node.order], len(rows) - 1))

    for position, (c, k, allocation) in enumerate(lane):
        kind = cloud.instance_type(allocation.instance_type)
        kept, released = kept_and_released(held, allocation.nodes if held_type == kind else 0, now_s)
        give_back(released)
        launch, init = launched[c, k]
        for row in range(allocation.nodes - len(kept)):
            running_s = now_s + launch[row, sample]
            kept.append(Node(len(requested_in), running_s, running_s + init[row, sample]))
            requested_in.append(len(rows))
        held, held_type = kept, kind
        durations = [float(d) for d in trained[c, k][:, sample]]
        taken = trainings(held, now_s, kind.slots, allocation.slots_per_trial, durations)
        ends_s = max(end_s for _, end_s, _ in taken)
        training = sum(durations) * allocation.slots_per_trial
        if cloud.billing.mode is BillingMode.PER_FUNCTION:
            total += training * kind.usd_per_hour / 3600 / kind.slots
        rows.append((now_s, ends_s + problem.profile.sync_s, training, kind))
        if problem.policies.early_release:
            following = [later for _, _, later in lane[position + 1 : position + 2]]
            same = bool(following) and following[0].instance_type == allocation.instance_type
            stay = min(following[0].nodes, len(held)) if same else 0
            early = given_back_early(held, now_s, taken, stay, rows[-1][1])
            for node in held:
                if node.order in early:
                    lives.append(_Life(kind, node.running_s, early[node.order], requested_in[node.order], position))
            held = [node for node in held if node.order not in early]
        now_s = rows[-1][1]
    give_back(held)
    for life in lives:
        price = life.kind.usd_per_hour / 3600
        total += node_usd(cloud.billing, price, cloud.data_usd, life.running_s, life.released_s)
    return now_s, total, [_share(cloud, rows, number, lives) for number in range(len(rows))]


def _share(cloud: Cloud, rows: list, number: int, lives: list[_Life]) -> Share:
    start_s, end_s, training, own = rows[number]
    per_function = cloud.billing.mode is BillingMode.PER_FUNCTION
    cost = training * own.usd_per_hour / 3600 / own.slots if per_function else 0.0
    billed = 0.0
    for life in lives:
        if life.released_s < life.running_s:
            continue
        usd_per_s = life.kind.usd_per_hour / 3600
        within_s = max(0.0, min(life.released_s, end_s) - max(life.running_s, start_s))
        billed += within_s * life.kind.slots
        # The download falls to the first stage that does not end before the node runs.
        if number == next(s for s in range(life.requested_in, len(rows)) if life.running_s <= rows[s][1]):
            cost += cloud.data_usd
        if not per_function:
            cost += within_s * usd_per_s
            if life.released_in == number:
                whole = node_usd(cloud.billing, usd_per_s, 0.0, life.running_s, life.released_s)
                cost += whole - (life.released_s - life.running_s) * usd_per_s
    return Share(start_s, end_s, cost, training, billed)


@dataclass(frozen=True)
class Job:
    """A job without noise at a barrier; `closed_usd` is what has been paid for released nodes and trainings."""

    now_s: float = 0.0
    closed_usd: float = 0.0
    held: tuple[Node, ...] = ()
    kind: InstanceType | None = None


def release_usd(problem: Problem, job: Job, nodes: list[Node] | tuple[Node, ...]) -> float:
    """The bill of nodes that are given back at the job's barrier."""
    cloud = problem.cloud
    if job.kind is None:
        return 0.0
    price = job.kind.usd_per_hour / 3600
    return sum(node_usd(cloud.billing, price, cloud.data_usd, node.running_s, job.now_s) for node in nodes)


def follow(problem: Problem, job: Job, chain: int, stage: int, kind: InstanceType, nodes: int, width: int) -> Job:
    """The job at the end of a stage, without noise."""
    profile, cloud = problem.profile, problem.cloud
    kept, released = kept_and_released(list(job.held), nodes if job.kind == kind else 0, job.now_s)
    closed = job.closed_usd + release_usd(problem, job, released)
    running_s = job.now_s + cloud.launch_s.mean
    kept += [Node(len(kept) + n, running_s, running_s + cloud.init_s.mean) for n in range(nodes - len(kept))]
    held = tuple(Node(n, node.running_s, node.usable_s) for n, node in enumerate(kept))
    step = problem.experiment.chains[chain][stage]
    slow = (1 + profile.spread_penalty if width > kind.slots else 1) / kind.speed
    trial_s = profile.start_s.mean + slow * step.iterations * profile.iteration_s[width].mean + profile.save_s.mean
    end_s = max(end for _, end, _ in trainings(kept, job.now_s, kind.slots, width, [trial_s] * step.trials))
    if cloud.billing.mode is BillingMode.PER_FUNCTION:
        closed += step.trials * trial_s * width * kind.usd_per_hour / 3600 / kind.slots
    return Job(end_s + profile.sync_s, closed, held, kind)


def finished(problem: Problem, job: Job) -> tuple[float, float]:
    """(jct_s, cost_usd) once everything is given back."""
    return job.now_s, job.closed_usd + release_usd(problem, job, job.held)


def choices(problem: Problem) -> list[tuple[InstanceType, int, int]]:
    """Every (type, nodes, width) that holds at least one trial."""
    return [
        (kind, nodes, width)
        for kind in problem.cloud.instance_types
        for nodes in range(1, problem.cloud.max_nodes + 1)
        for width in problem.profile.iteration_s
        if fits(width, kind.slots, nodes)
    ]


def every_plan(problem: Problem, start: Job | None = None) -> list[tuple[float, float, tuple[StageAllocation, ...]]]:
    """(jct_s, cost_usd, allocations) of all plans there are, chains one after another; from `start` if it is given."""
    stages = [(c, k) for c, chain in enumerate(problem.experiment.chains) for k in range(len(chain))]
    options = [
        (kind, nodes, width, StageAllocation(instance_type=kind.name, nodes=nodes, slots_per_trial=width))
        for kind, nodes, width in choices(problem)
    ]
    plans = []

    def deeper(job: Job, taken: tuple[StageAllocation, ...]) -> None:
        if len(taken) == len(stages):
            plans.append((*finished(problem, job), taken))
            return
        for kind, nodes, width, allocation in options:
            deeper(follow(problem, job, *stages[len(taken)], kind, nodes, width), (*taken, allocation))

    deeper(start or Job(), ())
    return plans


def undominated(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that none beats in both, the fastest first; differences below a microsecond or 1e-9 are none."""
    front: list[tuple[float, float]] = []
    for time_s, usd in sorted((round(time_s, 6), usd) for time_s, usd in points):
        if not front or usd < front[-1][1] - 1e-9:
            if front and front[-1][0] == time_s:
                front.pop()
            front.append((time_s, usd))
    return front


def random_problem(
    rng: np.random.Generator,
    *,
    stages: int = 3,
    nodes: int = 3,
    kinds: int = 2,
    trials: int = 8,
    noise: bool = False,
) -> Problem:
    """A small problem with every feature of the model; times are dyadic, so that equal times are equal in binary.

    Args:
        rng: source of randomness.
        stages: most stages.
        nodes: largest `max_nodes`.
        kinds: most instance types.
        trials: most trials of the first stage.
        noise: whether latencies and iterations vary.
    """

    def pick(*values):
        return values[rng.integers(len(values))]

    def quarter(low: float, high: float) -> float:
        return round(rng.uniform(low, high) * 4) / 4

    def latency(mean: float) -> Latency:
        return Latency(mean=mean, std=pick(0.0, 0.125, 0.5) * mean if noise else 0.0)

    chain, alive = [], int(rng.integers(1, trials + 1))
    for _ in range(int(rng.integers(1, stages + 1))):
        chain.append((alive, int(rng.integers(1, 9))))
        alive = int(rng.integers(max(1, alive // 3), alive + 1))
    widths = sorted({int(w) for w in rng.choice([1, 2, 3, 4, 8], size=rng.integers(1, 4))})
    one = quarter(1, 40)
    iteration_s = {w: latency(max(0.25, round(4 * one / w ** pick(0.3, 0.7, 0.9, 1.0, -0.2)) / 4)) for w in widths}
    profile = ScalingProfile(
        iteration_s=iteration_s,
        start_s=latency(pick(0.0, quarter(0, 20))),
        save_s=latency(pick(0.0, quarter(0, 5))),
        sync_s=pick(0.0, quarter(0, 10)),
        trial_cv=pick(0.0, 0.1, 0.4) if noise else 0.0,
        spread_penalty=pick(0.0, 0.25, 0.5),
    )
    types = tuple(
        InstanceType(
            name=f"type{number}",
            slots=int(pick(1, 2, 4)),
            usd_per_hour=round(float(rng.uniform(0.5, 8.0)), 2),
            speed=pick(1.0, 1.0, 2.0, 0.5),
        )
        for number in range(int(rng.integers(1, kinds + 1)))
    )
    cloud = Cloud(
        instance_types=types,
        max_nodes=int(rng.integers(1, nodes + 1)),
        launch_s=latency(pick(0.0, quarter(0, 60), quarter(60, 200))),
        init_s=latency(pick(0.0, quarter(0, 60), quarter(60, 200))),
        billing=Billing(
            mode=pick(BillingMode.PER_INSTANCE, BillingMode.PER_INSTANCE, BillingMode.PER_FUNCTION),
            granularity_s=pick(1, 60, 3600),
            minimum_s=pick(0, 60, 3600),
        ),
        dataset_gib=pick(0.0, 0.0, 2.0),
        transfer_usd_per_gib=0.05,
    )
    return Problem(experiment=ExperimentSpec.from_stages(chain), profile=profile, cloud=cloud)


def hurried_problem(rng: np.random.Generator) -> Problem:
    """Stages much shorter than a node's start, so that nodes are still starting at one barrier after another."""

    def quarter(low: float, high: float) -> float:
        return round(rng.uniform(low, high) * 4) / 4

    chain, alive = [], int(rng.integers(3, 7))
    for _ in range(3):
        chain.append((alive, int(rng.integers(1, 5))))
        alive = int(rng.integers(max(1, alive - 2), alive + 1))
    one = quarter(1, 12)
    profile = ScalingProfile(
        iteration_s={
            1: Latency(mean=one),
            2: Latency(mean=max(0.25, round(4 * one * rng.uniform(0.45, 1.1)) / 4)),
        },
        start_s=Latency(mean=quarter(0, 3)),
        spread_penalty=0.25,
    )
    cloud = Cloud(
        instance_types=(InstanceType(name="a", slots=int(rng.integers(1, 4)), usd_per_hour=3.6),),
        max_nodes=3,
        launch_s=Latency(mean=quarter(0, 80)),
        init_s=Latency(mean=quarter(0, 80)),
        billing=Billing(
            mode=BillingMode.PER_FUNCTION if rng.random() < 1 / 3 else BillingMode.PER_INSTANCE,
            granularity_s=float(rng.choice([0.25, 1, 60])),
            minimum_s=float(rng.choice([0, 60])),
        ),
        dataset_gib=float(rng.choice([0, 0.1])),
        transfer_usd_per_gib=1.0,
    )
    return Problem(experiment=ExperimentSpec.from_stages(chain), profile=profile, cloud=cloud)


def random_plan(
    rng: np.random.Generator, problem: Problem, order: ChainOrder = ChainOrder.SEQUENTIAL
) -> AllocationPlan | None:
    """Any plan of a problem; None where no trial fits. Chains side by side may need more nodes than there are."""
    options = choices(problem)
    if not options:
        return None
    chains = []
    for chain in problem.experiment.chains:
        taken = [options[rng.integers(len(options))] for _ in chain]
        if rng.random() < 0.5:  # often one type throughout, so that nodes are kept
            taken = [t if t[0] == taken[0][0] else taken[0] for t in taken]
        chains.append(tuple(StageAllocation(instance_type=t.name, nodes=m, slots_per_trial=w) for t, m, w in taken))
    return AllocationPlan(chains=tuple(chains), order=order)


def worked_problem() -> Problem:
    """The worked example of the model: figures that were computed by hand."""
    return Problem(
        experiment=ExperimentSpec.from_stages([(4, 10), (2, 20), (1, 40)]),
        profile=ScalingProfile(
            iteration_s={1: Latency(mean=10.0), 2: Latency(mean=6.0), 4: Latency(mean=4.0)},
            start_s=Latency(mean=5.0),
            save_s=Latency(mean=1.0),
            sync_s=4.0,
        ),
        cloud=Cloud(
            instance_types=(InstanceType(name="a", slots=2, usd_per_hour=3.6),),
            max_nodes=4,
            launch_s=Latency(mean=30.0),
            init_s=Latency(mean=60.0),
        ),
    )


def plan_of(*stages: tuple[str, int, int]) -> AllocationPlan:
    """A plan of one chain from (type, nodes, slots per trial) of each stage."""
    return AllocationPlan(
        chains=(tuple(StageAllocation(instance_type=t, nodes=m, slots_per_trial=w) for t, m, w in stages),)
    )
