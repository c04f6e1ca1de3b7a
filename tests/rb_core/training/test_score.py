import math

import numpy as np
import pytest

from rb_core.errors import TrialMisuse
from rb_core.training.score import real_score


@pytest.mark.parametrize("given", [0.5, np.float32(0.5), np.array([0.5])])
def test_one_number_is_a_score(given):
    assert real_score(given) == 0.5


@pytest.mark.parametrize("given", [math.nan, math.inf, -math.inf, np.float32("inf")])
def test_what_is_not_finite_is_nan_and_so_never_wins(given):
    assert math.isnan(real_score(given))


@pytest.mark.parametrize("given", ["0.5", None, True, 1j, [0.5], np.zeros(2), 10**400])
def test_anything_else_is_refused(given):
    with pytest.raises(TrialMisuse, match=r"trial\.report"):
        real_score(given)
