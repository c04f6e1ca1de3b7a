"""What was said of a cloud by hand and what was measured of it; all else are defaults, which the latter replaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rb_core.hardware import Cloud
from rb_core.measurement import MeasuredSpeed
from rb_plugins.config.source import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was said of a cloud by hand.

    Attributes:
        speeds: names of the types whose speed was.
        launch_s: whether the launch latency was.
        init_s: whether the init latency was.
    """

    speeds: frozenset[str] = frozenset()
    launch_s: bool = False
    init_s: bool = False

    @classmethod
    def of(cls, cloud: Cloud) -> Given:
        """What a cloud says that was made in Python, where a default cannot be told from the same value by hand."""
        return cls(
            speeds=frozenset(found.name for found in cloud.instance_types if found.speed != 1.0),
            launch_s=cloud.launch_s.mean > 0,
            init_s=cloud.init_s.mean > 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """How fast types were found to be.

    Attributes:
        measured: by their names.
        reference: the type that was profiled, whose speed is 1; empty where that is not known.
    """

    measured: Mapping[str, MeasuredSpeed] = field(default_factory=dict)
    reference: str = ""


def read_given(data: object, *, folder: Path) -> Given:
    """What the key `cloud` says itself; it has been read as a cloud before, inline or as a path below `folder`."""
    table = read_table(folder / data) if isinstance(data, str) else data
    if not isinstance(table, Mapping):
        return Given()
    types = table.get("instance_types", ())
    return Given(
        speeds=frozenset(str(found["name"]) for found in types if isinstance(found, Mapping) and "speed" in found),
        launch_s="launch_s" in table,
        init_s="init_s" in table,
    )
