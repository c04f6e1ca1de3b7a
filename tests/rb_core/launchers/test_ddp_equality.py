"""A trial computes the same at any world size and after any stop."""

import dataclasses
from pathlib import Path

import pytest
import torch

from rb_core.launchers.ddp import DdpLauncher
from rb_core.target import Target
from rb_core.testing.launching_contract import Story, a_run
from rb_core.trial import Ready, Remark, Saved

FUNCTIONS = Path(__file__).with_name("trained.py")


@pytest.fixture(scope="module")
def launcher():
    with DdpLauncher(Target.parse(f"{FUNCTIONS}:act")) as launcher:
        yield launcher


def stages(launcher, folder, ranks, *, iterations=2, **config):
    """Run one stage for each world size, each from the checkpoint of the one before."""
    checkpoint, stories = None, []
    for stage, world_size in enumerate(ranks):
        run = a_run(
            folder,
            ranks=world_size,
            stage=stage,
            from_iteration=stage * iterations,
            to_iteration=(stage + 1) * iterations,
            config=config,
        )
        story = Story(launcher, dataclasses.replace(run, checkpoint=checkpoint)).to_end()
        assert story.failure is None
        checkpoint = Path(story.all(Saved)[-1].checkpoint)
        stories.append(story)
    return stories


def weights(stories):
    return torch.load(stories[-1].all(Saved)[-1].checkpoint, weights_only=True)["state"]["model"]


def largest_difference(a, b):
    return max((a[name] - b[name]).abs().max().item() for name in a)


@pytest.mark.parametrize("ranks", [(1, 1, 1), (1, 2, 1), (2, 1, 3), (2, 2, 2)])
def test_staged_training_ends_with_the_weights_of_an_uninterrupted_one(launcher, tmp_path, ranks):
    whole = weights(stages(launcher, tmp_path / "whole", [1], iterations=6, act="fits", lr=0.05))
    staged = weights(stages(launcher, tmp_path / "staged", ranks, act="fits", lr=0.05))
    assert largest_difference(whole, staged) < 1e-5
    first = weights(stages(launcher, tmp_path / "first", [1], act="fits", lr=0.05))
    assert largest_difference(whole, first) > 1e-3


def test_processes_of_the_data_loader_change_nothing(launcher, tmp_path):
    plain = weights(stages(launcher, tmp_path / "plain", [2], act="fits", lr=0.05))
    loaded = weights(stages(launcher, tmp_path / "loaded", [2], act="fits", lr=0.05, loader_processes=2))
    assert largest_difference(plain, loaded) == 0


def test_a_stop_within_a_stage_loses_nothing(launcher, tmp_path):
    config = {"act": "fits", "lr": 0.05}
    run = a_run(tmp_path / "stopped", ranks=2, to_iteration=200, config=config)
    stopped = Story(launcher, run)
    stopped.until(Ready)
    stopped.handle.stop(60)
    saved = stopped.to_end().all(Saved)[-1]
    assert stopped.failure is None
    assert saved.iterations < 200
    rest = dataclasses.replace(
        run, from_iteration=saved.iterations, to_iteration=saved.iterations + 3, checkpoint=Path(saved.checkpoint)
    )
    resumed = Story(launcher, rest).to_end()
    whole = stages(launcher, tmp_path / "whole", [1], iterations=saved.iterations + 3, **config)
    assert largest_difference(weights([resumed]), weights(whole)) < 1e-5


def test_generators_go_on_where_they_stood_at_the_same_world_size(launcher, tmp_path):
    def drawn(stories):
        return sorted(m.text for story in stories for m in story.all(Remark))

    whole = drawn(stages(launcher, tmp_path / "whole", [2], iterations=4, act="draws"))
    staged = drawn(stages(launcher, tmp_path / "staged", [2, 2], act="draws"))
    assert len(set(whole)) == 8
    assert staged == whole


def test_ranks_start_equal_and_draw_numbers_of_their_own_in_the_loop(launcher, tmp_path):
    (story,) = stages(launcher, tmp_path, [2], iterations=1, act="starts_equal")
    before = [story.told_by(rank)[0].text for rank in (0, 1)]
    within = {m.text.split()[-1] for m in story.all(Remark) if m.text.startswith("rank")}
    assert before[0] == before[1]
    assert len(within) == 2
