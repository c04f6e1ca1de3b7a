"""How long nodes took to start, pool by pool: what logs tell of it, and what it makes of a cloud's default."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rb_core.events import (
    Event,
    LaunchAttempted,
    LaunchRefused,
    NodeReady,
    NodeRequested,
    NodeRunning,
    RunResumed,
    RunStarted,
)
from rb_core.hardware import Latency

PRIOR_STARTS = 3
"""A default stands for so many observed starts, as it does for `rb_core.learning`."""

LEAST_STARTS = 8
"""Fewer observed starts change no default."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Pool:
    """Where nodes come from that are alike.

    Attributes:
        provider: who rents them.
        region: where; empty where the provider has no regions.
        zone: where in the region; empty where that is not known.
        instance_type: what they are.
        market: how they are bought.
    """

    provider: str
    region: str
    zone: str
    instance_type: str
    market: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStart:
    """One node that began to run.

    Attributes:
        pool: where it came from.
        run: the run that it was of.
        node: its name, unique among all runs.
        utc: when it was requested, ISO 8601.
        launch_s: from the request to running.
        init_s: from running to ready; None for one that never was.
    """

    pool: Pool
    run: str
    node: str
    utc: str
    launch_s: float
    init_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One renting call that was refused.

    Attributes:
        pool: what it was for.
        run: the run that it was of.
        utc: when, ISO 8601.
        reason: why, in the provider's words.
    """

    pool: Pool
    run: str
    utc: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Startups:
    """What one log tells of the starts of its nodes.

    Attributes:
        starts: the nodes that began to run, in the order of their requests.
        refusals: the renting calls that were refused, in order.
    """

    starts: tuple[NodeStart, ...]
    refusals: tuple[Refusal, ...]


def startups(events: Iterable[Event]) -> Startups:
    """The starts and refusals that a log tells of.

    A node that was still starting when a run was resumed is left out: nobody saw when it began to run, or was ready.

    Args:
        events: of one run, from its first one on; its problem names provider and region.
    """
    run = provider = region = ""
    requested: dict[str, NodeRequested] = {}
    running: dict[str, NodeRunning] = {}
    ready: dict[str, float] = {}
    attempts: dict[str, LaunchAttempted] = {}
    refusals = []
    for event in events:
        match event:
            case RunStarted():
                cloud = event.problem.get("cloud", {})
                run, provider, region = event.run, str(cloud.get("provider", "")), str(cloud.get("region", ""))
            case RunResumed():
                requested = {name: asked for name, asked in requested.items() if name in ready}
            case NodeRequested():
                requested[event.node] = event
            case NodeRunning() if event.node in requested:
                running[event.node] = event
            case NodeReady() if event.node in requested:
                ready[event.node] = event.t_s
            case LaunchAttempted():
                attempts[event.attempt] = event
            case LaunchRefused() if event.attempt in attempts:
                attempt = attempts[event.attempt]
                asked = next((requested[name] for name in attempt.nodes if name in requested), None)
                if asked is not None:
                    pool = _pool(provider, region, asked, attempt.request)
                    refusals.append(Refusal(pool=pool, run=run, utc=event.utc, reason=event.reason))
            case _:
                pass
    starts = tuple(
        NodeStart(
            pool=_pool(provider, region, asked, {"zone": running[name].zone}),
            run=run,
            node=name,
            utc=asked.utc,
            launch_s=max(0.0, running[name].since_s - asked.t_s),
            init_s=max(0.0, ready[name] - running[name].since_s) if name in ready else None,
        )
        for name, asked in requested.items()
        if name in running
    )
    return Startups(starts=starts, refusals=tuple(refusals))


def latency_of(default: Latency, observed: Sequence[float]) -> Latency | None:
    """A latency by what was observed of it; None where that is too little to change the default.

    Its mean and standard deviation are those of all observations together with `PRIOR_STARTS` more, which have the mean
    and the standard deviation of the default: the posterior mean of a normal sample under a conjugate prior of that
    weight (Gelman et al., Bayesian Data Analysis, 3rd ed., section 3.3), with the spread of the pooled sample.
    A default of 0 says that nobody gave one, and counts for nothing.

    Args:
        default: what is taken where nothing was observed.
        observed: in seconds.
    """
    if len(observed) < LEAST_STARTS:
        return None
    weight = PRIOR_STARTS if default.mean > 0 else 0
    total = weight + len(observed)
    mean = (weight * default.mean + math.fsum(observed)) / total
    squares = weight * (default.std**2 + (default.mean - mean) ** 2)
    squares += math.fsum((seconds - mean) ** 2 for seconds in observed)
    return Latency(mean=mean, std=math.sqrt(squares / total))


def _pool(provider: str, region: str, asked: NodeRequested, place: Mapping[str, object]) -> Pool:
    return Pool(
        provider=provider,
        region=region,
        zone=str(place.get("zone") or ""),
        instance_type=asked.instance_type,
        market=asked.market,
    )
