from __future__ import annotations

import pytest

from rb_core.errors import UnusableProfile
from rb_core.measurement import Measurement
from rb_core.speeds import measured_speed


def start(slots: int, config: int, seconds: float, *, from_iteration: int = 0) -> Measurement:
    """A start whose first iteration, the warm-up, tells nothing."""
    return Measurement(
        slots=slots, config=config, from_iteration=from_iteration, start_s=1.0, restore_s=0.0,
        iterations_s=(99.0, seconds, seconds), save_s=0.1, checkpoint_bytes=1,
    )  # fmt: skip


def starts(times: dict[int, tuple[float, ...]], config: int = 0) -> list[Measurement]:
    return [start(slots, config, seconds) for slots, each in times.items() for seconds in each]


def test_a_type_that_takes_half_the_time_is_twice_as_fast():
    speed = measured_speed("b", starts({1: (4.0, 4.0), 2: (2.2, 2.2)}), starts({1: (2.0, 2.0), 2: (1.1, 1.1)}))
    assert speed.mean == pytest.approx(2.0)
    assert speed.std == pytest.approx(0.0, abs=1e-9)
    assert speed.by_slots == pytest.approx({1: 2.0, 2: 2.0})
    assert speed.warnings == ()
    assert len(speed.measurements) == 4


def test_configurations_are_compared_with_themselves_alone():
    reference = [start(1, 0, 4.0), start(1, 1, 40.0)]
    assert measured_speed("b", reference, [start(1, 1, 20.0)]).mean == pytest.approx(2.0)


def test_each_width_counts_once_and_ratios_multiply():
    speed = measured_speed("b", starts({1: (4.0,) * 4, 2: (4.0,)}), starts({1: (1.0,) * 4, 2: (4.0,)}))
    assert speed.mean == pytest.approx(2.0)


def test_a_speed_that_depends_on_the_width_is_told_of():
    speed = measured_speed("b", starts({1: (4.0, 4.0), 4: (1.0, 1.0)}), starts({1: (2.0, 2.0), 4: (1.0, 1.0)}))
    (warning,) = speed.warnings
    assert warning.startswith("the speed of instance type b is 2.00 on 1 slot per trial and 1.00 on 4 slots")


def test_a_speed_that_differs_between_starts_is_told_of():
    speed = measured_speed("b", starts({1: (2.0, 2.0)}), starts({1: (1.0, 2.0)}))
    (warning,) = speed.warnings
    assert "from start to start" in warning
    assert speed.std > 0.5


def test_a_difference_between_widths_within_the_noise_of_starts_is_not_one():
    reference = starts({1: (2.0, 2.0), 2: (2.0, 2.0)})
    warnings = measured_speed("b", reference, starts({1: (1.0, 2.0), 2: (1.2, 2.4)})).warnings
    assert all("on 1 slot per trial" not in warning for warning in warnings)


def test_nothing_in_common_is_an_error_with_its_remedy():
    with pytest.raises(UnusableProfile, match="raise budget_s, or give the type's speed"):
        measured_speed("b", starts({1: (2.0,)}), starts({4: (2.0,)}))
