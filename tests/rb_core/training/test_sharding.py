import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rb_core.errors import InvalidInput
from rb_core.training.sharding import ShardedBatches


def batches(rank=0, world_size=1, *, size=23, batch=5, shuffle=True, drop_last=False, seed=0, iteration=lambda: 0):
    made = ShardedBatches(
        size=size,
        global_batch_size=batch,
        rank=rank,
        world_size=world_size,
        shuffle=shuffle,
        drop_last=drop_last,
        seed=seed,
        iteration=iteration,
    )
    made.next_pass()
    return made


@given(
    size=st.integers(1, 60),
    batch=st.integers(1, 20),
    world_size=st.integers(1, 7),
    drop_last=st.booleans(),
    seed=st.integers(-(2**70), 2**70),
)
def test_the_ranks_shares_make_up_the_global_batches(size, batch, world_size, drop_last, seed):
    if drop_last and size < batch:
        with pytest.raises(InvalidInput, match="must not exceed"):
            batches(size=size, batch=batch, drop_last=True)
        return
    options = {"size": size, "batch": batch, "drop_last": drop_last, "seed": seed}
    whole = list(batches(**options))
    ranks = [batches(rank, world_size, **options) for rank in range(world_size)]
    assert [len(rank) for rank in ranks] == [len(whole)] * world_size
    for step, shares in enumerate(zip(*ranks, strict=True)):
        fractions = [rank.fraction(step) for rank in ranks]
        real = [share for share, fraction in zip(shares, fractions, strict=True) if fraction]
        assert sorted(index for share in real for index in share) == sorted(whole[step])
        assert [fraction for fraction in fractions if fraction] == [len(share) / len(whole[step]) for share in real]
        assert sum(fractions) == pytest.approx(1)
        assert all(len(share) >= 1 for share in shares)
    if not drop_last:
        assert sorted(index for indices in whole for index in indices) == list(range(size))


def test_order_follows_from_seed_iteration_and_pass_alone():
    now = [0]
    made = batches(iteration=lambda: now[0])
    orders = [list(made)]
    made.next_pass()
    orders.append(list(made))
    now[0] = 1
    made.next_pass()
    orders.append(list(made))
    orders.append(list(batches(seed=1)))
    assert len({str(order) for order in orders}) == 4
    resumed = batches(iteration=lambda: 1)
    assert list(resumed) == orders[2]


def test_asking_for_an_iterator_twice_begins_no_second_pass():
    made = batches()
    assert list(made) == list(made)


def test_without_shuffling_the_order_is_the_data_sets():
    assert np.concatenate(list(batches(shuffle=False))).tolist() == list(range(23))


@pytest.mark.parametrize("wrong", [{"size": 0}, {"batch": 0}, {"batch": 2.0}])
def test_sizes_that_are_no_positive_integers_are_refused(wrong):
    with pytest.raises(InvalidInput, match="must be a positive integer"):
        batches(**wrong)
