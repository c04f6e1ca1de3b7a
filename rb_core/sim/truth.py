"""What a rehearsed run cost by the world's own books, as far as any log can know it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from rb_core.billing import bill
from rb_core.sim.evidence import Evidence

SAME_S = 1e-6
"""Times of the log and of the world's clock that are closer than this are the same."""

UNHEARD_S = 15.0
"""While the engine waits to repeat a call whose answer was lost it hears nothing: what happens then, and how long ago
it did, stands in the log by so much too late at most."""


def true_cost_usd(evidence: Evidence) -> tuple[float, float]:
    """The bill by the cloud's and the launcher's books: the least and the most that a log can know of it.

    Of a trial that ended in the moment in which the engine's process was killed the log may know no more than that it
    still ran when the last event was written.
    """
    nodes, unheard_s, unsure = evidence.nodes, longest_unheard_s(evidence), unsure_releases_s(evidence)
    least_s, most_s = (dict.fromkeys(nodes, 0.0) for _ in range(2))
    for start in evidence.starts:
        ended_s = start.began_s if start.ended_s is None else start.ended_s
        known_s = _last_written_s(evidence, ended_s) if _at_a_kill(evidence, ended_s) else ended_s
        for slot in start.slots:
            slots = nodes[slot.node].instance_type.slots
            most_s[slot.node] += (ended_s + unheard_s - start.began_s) / slots
            least_s[slot.node] += max(0.0, known_s - start.began_s) / slots
    running_s = [np.inf if node.running_s is None else node.running_s for node in nodes.values()]
    released_s = [np.inf if node.released_s is None else node.released_s for node in nodes.values()]
    ran = np.less_equal(running_s, released_s)
    least = _bill_usd(
        evidence,
        np.where(ran, np.minimum(np.add(running_s, unheard_s), released_s), np.inf),
        [min(at_s, unsure.get(name, at_s)) for name, at_s in zip(nodes, released_s, strict=True)],
        least_s,
        [node.reclaimed for node in nodes.values()],
    )
    latest_s = [max(at_s, unsure.get(name, at_s)) for name, at_s in zip(nodes, released_s, strict=True)]
    # One that was to be given back in the moment in which it was taken was given back, as far as the log can know.
    reclaimed = [node.reclaimed and bool(evidence.state.nodes[name].lost) for name, node in nodes.items()]
    return least, _bill_usd(evidence, running_s, np.add(latest_s, np.where(ran, unheard_s, 0.0)), most_s, reclaimed)


def _bill_usd(
    evidence: Evidence,
    running_s: ArrayLike,
    released_s: ArrayLike,
    trained_s: Mapping[str, float],
    reclaimed: ArrayLike,
) -> float:
    cloud, nodes = evidence.request.problem.cloud, evidence.nodes.values()
    return float(
        bill(
            cloud.billing,
            usd_per_s=[node.instance_type.usd_per_s for node in nodes],
            running_s=running_s,
            released_s=released_s,
            trained_s=list(trained_s.values()),
            data_usd=cloud.data_usd,
            beside_usd_per_s=[
                (node.instance_type.disk_usd_per_hour + node.instance_type.address_usd_per_hour) / 3600.0
                for node in nodes
            ],
            reclaimed=reclaimed,
        ).sum()
    )


def unsure_releases_s(evidence: Evidence) -> dict[str, float]:
    """When nodes were given back by the log whose giving back was written and not done, and lost then or since.

    The process was killed between the two, and the next one finds nothing that it could give back, nor hears of it.
    """
    told = {name: node.released_s for name, node in evidence.state.nodes.items()}
    until_s = {name: at_s + evidence.began_s for name, at_s in told.items() if at_s is not None}
    return {
        name: until_s[name]
        for name, node in evidence.nodes.items()
        if node.lost and name in until_s and _at_a_kill(evidence, until_s[name])
    }


def _at_a_kill(evidence: Evidence, at_s: float) -> bool:
    return any(abs(at_s - killed_s) < SAME_S for killed_s in evidence.killed_s)


def _last_written_s(evidence: Evidence, by_s: float) -> float:
    written = bisect_right(evidence.events, by_s - evidence.began_s, key=lambda event: event.t_s)
    return evidence.events[written - 1].t_s + evidence.began_s if written else by_s


def longest_unheard_s(evidence: Evidence) -> float:
    """By how much a time in the log may be too late."""
    return UNHEARD_S if evidence.faults.answer_lost else 0.0
