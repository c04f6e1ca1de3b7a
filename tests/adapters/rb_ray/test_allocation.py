"""What a trial is told of what it holds."""

from __future__ import annotations

import pytest
import rb_ray
from rb_ray.trainable.allocation import trial_number


def test_outside_of_a_trial_there_is_one_slot():
    allocation = rb_ray.get_allocation()
    assert (allocation.slots, allocation.cpus_per_slot, allocation.gpus_per_slot) == (1, 1.0, 0.0)
    assert (allocation.trial_id, allocation.node_ids, allocation.stage) == ("", (), None)


@pytest.mark.parametrize(("trial_id", "number"), [("4f1d2_00012", 12), ("a1b2c3", 2850798446), ("", 0)])
def test_the_number_of_a_trial_is_in_its_id(trial_id, number):
    assert trial_number(trial_id) == number
