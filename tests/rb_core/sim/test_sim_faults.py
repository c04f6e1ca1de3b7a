"""Faults: nothing goes wrong by default, and what cannot be is refused under its name."""

import dataclasses

import pytest

from rb_core.errors import InvalidInput
from rb_core.sim.faults import Faults, Slowness, Spot


def test_nothing_goes_wrong_by_default():
    for field in dataclasses.fields(Faults):
        value = getattr(Faults(), field.name)
        if dataclasses.is_dataclass(value):
            assert value == type(value)()
        else:
            assert value == (1.0 if field.name.startswith("true_") else 0.0)
    assert (Spot().unannounced, Spot().droughts_per_hour) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("launch_failure", 1.1), ("never_ready", -0.1), ("mass_loss_probability", 2), ("trial_failure", "often"),
        ("trial_hang", float("nan")), ("nan_score", 1.01), ("checkpoint_torn", -1), ("answer_lost", 5),
        ("node_loss_per_hour", -1), ("loss_notice_s", float("inf")), ("clock_step_s", -5), ("driver_kill_per_run", -1),
        ("driver_kill_per_run", 1001),
        ("true_iteration_factor", 0), ("true_init_factor", -2),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(key, value):
    with pytest.raises(InvalidInput, match=f"{key}: must be") as caught:
        Faults(**{key: value})
    assert caught.value.key == key


@pytest.mark.parametrize(("key", "value"), [("probability", 1.5), ("factor", 0.0)])
def test_slowness_is_checked_too(key, value):
    with pytest.raises(InvalidInput, match=key):
        Slowness(**{key: value})


@pytest.mark.parametrize(
    ("key", "value"), [("unannounced", 1.5), ("notice_s", -1.0), ("droughts_per_hour", -1.0), ("drought_s", -1.0)]
)
def test_what_becomes_of_spot_is_checked_too(key, value):
    with pytest.raises(InvalidInput, match=key):
        Spot(**{key: value})
