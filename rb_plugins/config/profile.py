"""The key `profile`: measured latencies, inline or in a file of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from rb_core.errors import InvalidInput
from rb_core.hardware import Latency
from rb_core.measurement import MeasuredSpeed
from rb_core.profile import ScalingProfile
from rb_plugins.config.durations import Seconds
from rb_plugins.config.given import Speeds
from rb_plugins.config.latency import LatencyTable, latency_table
from rb_plugins.config.shape import shaped
from rb_plugins.config.source import naming, read_table

_FREE_FORM = ("measurements", "fit", "speeds")
"""Keys of a profile file under which there is what only its reader may understand."""

_SLOTS = re.compile(r"[1-9]\d*", re.ASCII)


def _by_slots(value: object) -> object:
    if not isinstance(value, dict):
        such = 'such as {1 = 10.0, 2 = 6.0} in TOML, {"1": 10.0, "2": 6.0} in JSON'
        raise InvalidInput("", f"must be an object with a value for each number of slots, {such}, got {value!r}")
    for name in value:
        if not _SLOTS.fullmatch(name):
            raise InvalidInput(name, "must be a number of slots, such as 1 or 2")
    return value


def _zero() -> Latency:
    return Latency(mean=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTable:
    """A `MeasuredSpeed`, and what it rests on."""

    mean: float
    std: float = 0.0
    by_slots: Annotated[Mapping[str, float], BeforeValidator(_by_slots)] = field(default_factory=dict)
    measurements: Any = None

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> MeasuredSpeed:
        """The speed. Raises `InvalidInput` under a key relative to that of the type."""
        by_slots = {int(slots): ratio for slots, ratio in self.by_slots.items()}
        return MeasuredSpeed(mean=self.mean, std=self.std, by_slots=by_slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTable:
    """A `ScalingProfile`, and what the profiler noted beside it."""

    iteration_s: Annotated[Mapping[str, LatencyTable], BeforeValidator(_by_slots)]
    start_s: LatencyTable = field(default_factory=_zero)
    save_s: LatencyTable = field(default_factory=_zero)
    sync_s: Seconds = 0.0
    trial_cv: float = 0.0
    run_cv: float = 0.0
    spread_penalty: float = 0.0
    checkpoint_gib: float = 0.0
    target: str = ""
    made: str = ""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    measurements: Any = None
    fit: Any = None
    instance_type: str = ""
    speeds: Mapping[str, SpeedTable] = field(default_factory=dict)
    usd: float = 0.0
    provider: str = ""
    region: str = ""

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> ScalingProfile:
        """What a plan needs of it.

        Raises:
            InvalidInput: a figure is out of its limits; the key is relative to `profile`.
        """
        return ScalingProfile(
            iteration_s={int(slots): latency for slots, latency in self.iteration_s.items()},
            start_s=self.start_s,
            save_s=self.save_s,
            sync_s=self.sync_s,
            trial_cv=self.trial_cv,
            run_cv=self.run_cv,
            spread_penalty=self.spread_penalty,
            checkpoint_gib=self.checkpoint_gib,
        )

    def known_speeds(self) -> Speeds:
        """How fast types were found to be."""
        measured = {name: speed.value() for name, speed in self.speeds.items()}
        return Speeds(measured=measured, reference=self.instance_type)


def read_profile(data: object, *, folder: Path, key: str = "profile") -> ScalingProfile:
    """A profile that is given inline, or as the path of a profile file relative to `folder`.

    Raises:
        InvalidInput: it is neither; a file's error carries the file's name as a note.
    """
    return read_profile_table(data, folder=folder, key=key).value()


def read_profile_table(data: object, *, folder: Path, key: str = "profile") -> ProfileTable:
    """All that is said beside a profile, too. As `read_profile`."""
    if not isinstance(data, str):
        return shaped(ProfileTable, data, key, free=_FREE_FORM)
    path = folder / data
    with naming(path, key):
        return shaped(ProfileTable, read_table(path, nulls_under=_FREE_FORM), free=_FREE_FORM)


def profile_table(profile: ScalingProfile) -> dict[str, Any]:
    """The canonical form of a profile; without `run_cv` where it is 0, as before there was such a key."""
    table: dict[str, Any] = {
        "iteration_s": {str(slots): latency_table(latency) for slots, latency in profile.iteration_s.items()},
        "start_s": latency_table(profile.start_s),
        "save_s": latency_table(profile.save_s),
        "sync_s": float(profile.sync_s),
        "trial_cv": float(profile.trial_cv),
        "spread_penalty": float(profile.spread_penalty),
        "checkpoint_gib": float(profile.checkpoint_gib),
    }
    if profile.run_cv > 0:
        table["run_cv"] = float(profile.run_cv)
    return table
