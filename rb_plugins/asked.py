"""What `rb-tune profile` is asked for: the function of an experiment file, or a bare one on this machine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType
from rb_core.profile import ScalingProfile
from rb_core.providers.machine import devices
from rb_core.target import Target
from rb_plugins.config.durations import seconds
from rb_plugins.profiling import ProfileRequest, profile_request
from rb_plugins.tuning import DEFAULT_LAUNCHER, Measuring

if TYPE_CHECKING:
    from rb_plugins.session import Session

ITERATIONS = 1000
"""What a bare function is told of how long a trial may become."""


def asked_to_profile(
    session: Session,
    target: str,
    *,
    slots: str,
    budget: str | None,
    configs: Sequence[str],
    launcher: str | None,
) -> ProfileRequest:
    """What is to be measured.

    Args:
        session: reads experiment files.
        target: an experiment file, or a reference to a training function.
        slots: numbers of slots, separated by commas; empty for the file's, or powers of two.
        budget: a duration; None for the file's, or the default.
        configs: JSON objects, for a bare function.
        launcher: name of a launcher; None for the file's, or the default.

    Raises:
        InvalidInput: an option does not fit.
    """
    if Path(target).suffix.lower() in (".toml", ".json"):
        if configs:
            raise InvalidInput("--config", f"must be left out, since configurations are drawn from {target}")
        tuning = session.load_tuning(Path(target))
        measuring = Measuring() if isinstance(tuning.profile, ScalingProfile) else tuning.profile
        request = profile_request(tuning, measuring, session.configs(tuning), session.manager.depots())
    else:
        machine = InstanceType(name="machine", slots=len(devices()), usd_per_hour=0.0)
        request = ProfileRequest(
            target=Target.parse(target),
            launcher=DEFAULT_LAUNCHER,
            cloud=Cloud(instance_types=(machine,), max_nodes=1),
            configs=tuple(_config(number, text) for number, text in enumerate(configs)) or ({},),
            measuring=Measuring(),
            max_iterations=ITERATIONS,
        )
    measuring = request.measuring
    if slots:
        measuring = dataclasses.replace(measuring, slots=_slots(slots))
    if budget is not None:
        try:
            measuring = dataclasses.replace(measuring, budget_s=seconds(budget))
        except InvalidInput as error:
            raise InvalidInput("--budget", error.problem) from None
    return dataclasses.replace(request, measuring=measuring, launcher=launcher or request.launcher)


def _config(number: int, text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"--config[{number}]", f"must be a JSON object, got {text!r}: {error}") from None
    if not isinstance(config, dict):
        raise InvalidInput(f"--config[{number}]", f"must be a JSON object, got {text!r}")
    return config


def _slots(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise InvalidInput("--slots", f"must be positive numbers separated by commas, such as 1,2,4; got {text!r}")
    return numbers
