"""What a failure is called that is neither an exception of the function nor the death of a rank."""

import dataclasses
from pathlib import Path

import pytest
import torch

from rb_core.errors import FailureKind
from rb_core.launchers.ddp import DdpLauncher
from rb_core.target import Target
from rb_core.testing.launching_contract import Story, a_run
from rb_core.training import checkpoint, checksums
from rb_core.trial import Reported, Saved

FUNCTIONS = Path(__file__).with_name("trained.py")


@pytest.fixture(scope="module")
def launcher():
    with DdpLauncher(Target.parse(f"{FUNCTIONS}:act"), timeout_s=60) as launcher:
        yield launcher


@pytest.fixture
def saved(launcher, tmp_path):
    """A state of one iteration, whose tensor holds 1,000 ones."""
    story = Story(launcher, a_run(tmp_path, config={"act": "goes_on"})).to_end()
    return Path(story.all(Saved)[0].checkpoint)


def going_on(folder, saved, **config):
    run = a_run(folder, stage=1, from_iteration=1, to_iteration=2, config={"act": "goes_on"} | config)
    return dataclasses.replace(run, checkpoint=saved)


def flip_a_bit_of_a_weight(path):
    content = bytearray(path.read_bytes())
    content[content.index(torch.ones(1000).numpy().tobytes()) + 2_000] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "emptied": lambda path: path.write_bytes(b""),
    "flipped": flip_a_bit_of_a_weight,
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("cut short", "it does not end with a checksum, so it is cut short"),
        ("emptied", "it is empty"),
        ("flipped", "its checksum differs"),
        ("missing", "No such file or directory"),
    ],
)
def test_a_damaged_checkpoint_is_refused_before_the_function_uses_it(launcher, tmp_path, saved, damage, said):
    DAMAGE[damage](saved)
    story = Story(launcher, going_on(tmp_path, saved)).to_end()
    assert story.failure.kind is FailureKind.CHECKPOINT
    assert str(saved) in story.failure.cause
    assert said in story.failure.cause
    assert story.all(Reported) == []


def test_an_undamaged_one_is_used(launcher, tmp_path, saved):
    story = Story(launcher, going_on(tmp_path, saved)).to_end()
    assert story.failure is None
    assert [message.score for message in story.all(Reported)] == [1000.0]


@pytest.mark.parametrize(
    ("wrap", "cause"),
    [("from", "RuntimeError: no model"), ("hide", "RuntimeError: no model"), ("exit", "SystemExit: no model")],
)
def test_damage_is_seen_behind_what_the_function_makes_of_it(launcher, tmp_path, saved, wrap, cause):
    DAMAGE["cut short"](saved)
    failure = Story(launcher, going_on(tmp_path, saved, wrap=wrap)).to_end().failure
    assert (failure.cause, failure.kind) == (cause, FailureKind.CHECKPOINT)


def test_a_checkpoint_that_does_not_suit_the_function_is_the_functions_fault(launcher, tmp_path, saved):
    other = checkpoint.write_state(tmp_path / "other", 1, {"state": {"model": {}}, "random": []}, verify=False)
    newer = tmp_path / "newer.pt"
    torch.save({"schema": 99}, newer)
    checksums.seal(newer)
    for unsuited, said in ((other, "holds no 'thing'"), (newer, "is not of schema 1"), (tmp_path, "is a folder")):
        failure = Story(launcher, going_on(tmp_path, unsuited)).to_end().failure
        assert failure.kind is FailureKind.RAISED
        assert said in failure.cause


def test_ranks_that_know_only_of_lost_ones_have_died(launcher, tmp_path):
    lost = {"act": "meets", "how": "lose", "rank": 0}
    failure = Story(launcher, a_run(tmp_path, ranks=2, config=lost)).to_end().failure
    assert failure.kind is FailureKind.DIED
    alone = Story(launcher, a_run(tmp_path, config=lost)).to_end().failure
    assert alone.kind is FailureKind.RAISED


def test_ranks_that_cannot_be_started_are_told_from_those_that_fail(launcher, tmp_path):
    run = a_run(tmp_path, ranks=2, config={"act": "meets"})
    failure = Story(launcher, dataclasses.replace(run, logs=Path("/proc/self"))).to_end().failure
    assert failure.kind is FailureKind.UNSTARTED
    assert "the process could not be started" in failure.cause


def test_a_place_that_the_group_cannot_be_made_on_leaves_the_trial_unstarted(launcher, tmp_path):
    run = a_run(tmp_path, config={"act": "meets"})
    slots = tuple(dataclasses.replace(slot, device="no-such-gpu") for slot in run.slots)
    failure = Story(launcher, dataclasses.replace(run, slots=slots)).to_end().failure
    assert failure.kind is FailureKind.UNSTARTED
    assert "torch finds no usable GPU there" in failure.cause


def test_a_message_longer_than_a_pipe_holds_is_shortened(launcher, tmp_path):
    failure = Story(launcher, a_run(tmp_path, config={"act": "complains"})).to_end().failure
    assert failure.kind is FailureKind.RAISED
    assert failure.cause.startswith("firstxxx")
    assert "xxxlast (trained.py, line " in failure.cause


def test_a_message_that_cannot_be_read_here_is_the_functions_fault(launcher, tmp_path):
    failure = Story(launcher, a_run(tmp_path, config={"act": "tells_nonsense"})).to_end().failure
    assert failure.kind is FailureKind.RAISED
    assert "sent a message that cannot be read here" in failure.cause
