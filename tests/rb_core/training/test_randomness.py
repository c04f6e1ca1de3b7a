import io
import random

import numpy as np
import pytest
import torch

from rb_core.training import randomness


@pytest.fixture(autouse=True)
def _generators_are_put_back():
    state = randomness.capture()
    yield
    randomness.put_back(state)


def draw():
    return random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(1).item()


def test_the_same_key_gives_the_same_numbers_and_another_one_others():
    drawn = []
    for key in [(1, 2), (1, 2), (1, 3), (2, 2), (-1, 2), (2**64 + 1, 2)]:
        randomness.seed_all(*key)
        drawn.append(draw())
    assert drawn[0] == drawn[1] == drawn[5]
    assert all(len({numbers[kind] for numbers in drawn}) == 4 for kind in range(5))


def test_a_captured_state_goes_on_where_it_stood_after_a_safe_round_trip():
    random.gauss(0, 1)
    np.random.randn()
    file = io.BytesIO()
    torch.save(randomness.capture(), file)
    expected = draw()
    file.seek(0)
    randomness.put_back(torch.load(file, weights_only=True))
    assert draw() == expected


def test_a_state_survives_the_way_to_another_rank():
    data = randomness.to_bytes(randomness.capture())
    expected = draw()
    randomness.put_back(randomness.from_bytes(data))
    assert draw() == expected
