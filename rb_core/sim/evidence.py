"""What is known of a rehearsal when it is over: the engine's word, and the world's own books."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rb_core.engine import RunRequest
from rb_core.events import Event
from rb_core.sim.cloud import SimNode
from rb_core.sim.faults import Faults
from rb_core.sim.starts import Start
from rb_core.sim.store import SimStore
from rb_core.state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All of it.

    Attributes:
        request: what was run.
        events: the log.
        began_s: what the simulated clock read when the log began.
        state: the run by the log.
        nodes: the cloud's books.
        owned: names of the nodes that it still holds.
        starts: the launcher's books.
        scores: what each trial told at the end of each stage, by (trial, stage).
        store: where the checkpoints are.
        killed_s: when the engine's process was killed, on the simulated clock.
        faults: what could go wrong.
        endless: whether the log was full before the run had ended.
        error: what the engine raised in the end.
    """

    request: RunRequest
    events: tuple[Event, ...]
    began_s: float
    state: RunState
    nodes: Mapping[str, SimNode]
    owned: tuple[str, ...]
    starts: tuple[Start, ...]
    scores: Mapping[tuple[int, int], float]
    store: SimStore
    killed_s: tuple[float, ...]
    faults: Faults
    endless: bool
    error: Exception | None
