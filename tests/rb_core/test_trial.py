"""The trial in this process, with a channel that records; several ranks are tested with the launchers."""

import dataclasses
from collections import deque
from pathlib import Path

import numpy as np
import pytest
import torch

from rb_core.errors import InvalidInput, TrialMisuse, UnusableCheckpoint
from rb_core.testing.launching_contract import a_run
from rb_core.training.peers import Alone
from rb_core.trial import Iterated, Ready, Reported, Saved, Stop, Trial


class RecordingChannel:
    def __init__(self):
        self.sent = []
        self.coming = deque()

    def send(self, message):
        self.sent.append(message)

    def ask(self, message):
        self.send(message)
        return self.coming.popleft()

    def stop_requested(self):
        return any(isinstance(message, Stop) for message in self.coming)

    def all(self, kind):
        return [message for message in self.sent if isinstance(message, kind)]


class Counter:
    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def a_trial(folder, *, checkpoint=None, rank=0, every_s=600.0, **run):
    run = dataclasses.replace(a_run(folder, **run), checkpoint=checkpoint, checkpoint_every_s=every_s)
    return Trial(run, rank=rank, channel=RecordingChannel(), peers=Alone())


def count(trial, counter=None):
    """A whole stage of counting."""
    counter = counter or Counter()
    trial.restore(counter=counter)
    for _ in trial.iterations():
        counter.count += 1
        trial.report(counter.count)
    trial.close()
    return trial.channel


def last_checkpoint(channel):
    return Path(channel.all(Saved)[-1].checkpoint)


def test_state_is_saved_at_the_end_of_the_stage_and_found_in_the_next(tmp_path):
    first = count(a_trial(tmp_path, to_iteration=3))
    assert [type(m) for m in first.sent] == [Ready, *[Reported, Iterated] * 3, Saved]
    (saved,) = first.all(Saved)
    assert (saved.iterations, saved.size_bytes) == (3, last_checkpoint(first).stat().st_size)
    assert last_checkpoint(first) == tmp_path / "checkpoints" / "trial-0000" / "iteration-00000003.pt"
    second = count(a_trial(tmp_path, checkpoint=last_checkpoint(first), stage=1, from_iteration=3, to_iteration=5))
    assert [m.score for m in second.all(Reported)] == [4, 5]
    assert [m.iterations for m in second.all(Iterated)] == [4, 5]


def test_state_is_saved_within_the_stage_when_the_last_checkpoint_is_old(tmp_path):
    channel = count(a_trial(tmp_path, to_iteration=3, every_s=0.0))
    assert [m.iterations for m in channel.all(Saved)] == [1, 2, 3]


def test_a_stop_ends_the_loop_after_the_iteration_with_a_checkpoint(tmp_path):
    trial = a_trial(tmp_path, to_iteration=5)
    trial.restore()
    for iteration in trial.iterations():
        if iteration == 1:
            trial.channel.coming.append(Stop())
    trial.close()
    assert [m.iterations for m in trial.channel.all(Iterated)] == [1, 2]
    assert [m.iterations for m in trial.channel.all(Saved)] == [2]


def test_messages_of_other_ranks_than_0_stay_at_home(tmp_path):
    trial = a_trial(tmp_path, rank=1, to_iteration=2)
    for _ in trial.iterations():
        with trial.save() as folder:
            (folder / "file").write_text("unused")
        trial.report(1.0)
    trial.close()
    assert trial.channel.sent == []
    assert not (tmp_path / "checkpoints").exists()


def test_a_folder_is_saved_and_found_in_the_next_stage(tmp_path):
    trial = a_trial(tmp_path, to_iteration=3)
    assert trial.load() is None
    due = []
    for _ in trial.iterations():
        trial.report(1)
        due.append(trial.save_due)
        if trial.save_due:
            with trial.save() as folder:
                (folder / "inner").mkdir()
                (folder / "inner" / "weights").write_text("w")
    trial.close()
    assert due == [False, False, True]
    saved = last_checkpoint(trial.channel)
    assert saved == tmp_path / "checkpoints" / "trial-0000" / "iteration-00000003"
    assert trial.channel.all(Saved)[0].size_bytes == 1
    assert (a_trial(tmp_path, checkpoint=saved).load() / "inner" / "weights").read_text() == "w"


def test_a_folder_whose_filling_fails_never_counts(tmp_path):
    trial = a_trial(tmp_path)

    def fill():
        for _ in trial.iterations():
            with trial.save() as folder:
                (folder / "half").write_text("h")
                raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fill()
    assert trial.channel.all(Saved) == []
    assert list((tmp_path / "checkpoints" / "trial-0000").iterdir()) == []


def test_a_stop_is_seen_when_save_due_is_asked(tmp_path):
    trial = a_trial(tmp_path, to_iteration=9)
    for _ in trial.iterations():
        trial.channel.coming.append(Stop())
        assert trial.save_due
        with trial.save():
            pass
    trial.close()
    assert len(trial.channel.all(Iterated)) == 1


@pytest.mark.parametrize(
    ("score", "value"),
    [(1, 1.0), (0.5, 0.5), (np.float32(0.5), 0.5), (torch.tensor([2.0]), 2.0), (np.array(3), 3.0)],
)
def test_scores_of_all_usual_kinds_are_taken(tmp_path, score, value):
    trial = a_trial(tmp_path)
    trial.restore()
    for _ in trial.iterations():
        trial.report(score)
    assert trial.channel.all(Reported) == [Reported(iterations=1, score=value)]


def test_not_a_number_is_reported_as_it_is(tmp_path):
    trial = a_trial(tmp_path)
    trial.restore()
    for _ in trial.iterations():
        trial.report(float("nan"))
    trial.close()
    assert np.isnan(trial.channel.all(Reported)[0].score)


@pytest.mark.parametrize("score", [None, "0.5", True, 1j, torch.zeros(2), [1.0], 10**400])
def test_what_is_no_number_is_refused(tmp_path, score):
    trial = a_trial(tmp_path)
    next(trial.iterations())
    with pytest.raises(TrialMisuse, match=r"trial\.report\(score\) must be given"):
        trial.report(score)


def test_a_score_may_follow_the_loop(tmp_path):
    trial = a_trial(tmp_path, to_iteration=2)
    trial.restore()
    for _ in trial.iterations():
        pass
    trial.report(0.5)
    trial.close()
    assert trial.channel.all(Reported) == [Reported(iterations=2, score=0.5)]


def test_misuse_is_told_with_the_remedy(tmp_path):
    trial = a_trial(tmp_path, to_iteration=2)
    with pytest.raises(TrialMisuse, match="in or after the loop"):
        trial.report(1)
    with pytest.raises(TrialMisuse, match="must have state_dict"):
        trial.restore(model=3)
    trial.restore(counter=Counter())
    with pytest.raises(TrialMisuse, match="given twice"):
        trial.restore(counter=Counter())
    with pytest.raises(TrialMisuse, match="but not both"):
        trial.load()
    loop = trial.iterations()
    next(loop)
    trial.report(1)
    with pytest.raises(TrialMisuse, match="a second time in iteration 0"):
        trial.report(1)
    with pytest.raises(TrialMisuse, match="before the loop"):
        trial.restore(more=Counter())
    with pytest.raises(TrialMisuse, match="used once"):
        next(trial.iterations())
    with pytest.raises(TrialMisuse, match=r"left in iteration 0 .* iteration 1 is the stage's last"):
        trial.close()


def test_a_stage_without_loop_score_or_checkpoint_is_an_error(tmp_path):
    with pytest.raises(TrialMisuse, match="never began"):
        a_trial(tmp_path).close()
    silent = a_trial(tmp_path)
    silent.restore()
    list(silent.iterations())
    with pytest.raises(TrialMisuse, match="without a score"):
        silent.close()
    forgetful = a_trial(tmp_path)
    for _ in forgetful.iterations():
        forgetful.report(1)
    with pytest.raises(TrialMisuse, match="without a checkpoint"):
        forgetful.close()
    with pytest.raises(TrialMisuse, match="in the loop"), a_trial(tmp_path).save():
        pass


def test_the_rest_of_a_stage_needs_no_second_score(tmp_path):
    trial = a_trial(tmp_path, to_iteration=3)
    trial.restore()
    loop = trial.iterations()
    next(loop)
    trial.report(1)
    trial.channel.coming.append(Stop())
    list(loop)
    rest = a_trial(tmp_path, checkpoint=last_checkpoint(trial.channel), from_iteration=1, to_iteration=3)
    rest.restore()
    list(rest.iterations())
    rest.close()


def test_a_checkpoint_that_does_not_fit_says_what_is_wrong(tmp_path):
    saved = last_checkpoint(count(a_trial(tmp_path)))
    with pytest.raises(UnusableCheckpoint, match=r"holds no 'other' \(it holds counter\)"):
        a_trial(tmp_path, checkpoint=saved).restore(other=Counter())
    less = a_trial(tmp_path, checkpoint=saved, from_iteration=1, to_iteration=2)
    less.restore()
    with pytest.raises(TrialMisuse, match="holds counter, which"):
        next(less.iterations())
    with pytest.raises(UnusableCheckpoint, match="does not fit 'counter'"):
        a_trial(tmp_path, checkpoint=saved).restore(counter=torch.nn.Linear(2, 2))
    with pytest.raises(UnusableCheckpoint, match="is not a folder"):
        a_trial(tmp_path, checkpoint=saved).load()


def test_wrapping_over_several_processes_needs_a_group(tmp_path):
    model = torch.nn.Linear(2, 2)
    assert a_trial(tmp_path).wrap(model) is model
    with pytest.raises(TrialMisuse, match='set launcher = "ddp"'):
        a_trial(tmp_path, ranks=2).wrap(model)


def test_the_loader_visits_everything_once_in_a_new_order_each_iteration(tmp_path):
    trial = a_trial(tmp_path, to_iteration=2)
    loader = trial.loader(torch.arange(10), global_batch_size=4)
    orders = [torch.cat(list(loader)).tolist() for _ in trial.iterations()]
    assert [sorted(order) for order in orders] == [list(range(10))] * 2
    assert orders[0] != orders[1]


@pytest.mark.parametrize("option", ["batch_size", "sampler", "batch_sampler"])
def test_options_that_the_loader_sets_itself_are_refused(tmp_path, option):
    with pytest.raises(InvalidInput, match="is set by the trial itself"):
        a_trial(tmp_path).loader(torch.arange(10), global_batch_size=4, **{option: None})


def test_an_iterable_data_set_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="map-style"):
        a_trial(tmp_path).loader((n for n in range(3)), global_batch_size=4)


# A loop of the host's own


def test_with_a_loop_of_its_own_nothing_is_sent_or_checked(tmp_path):
    trial = a_trial(tmp_path, from_iteration=1, to_iteration=3)
    run = trial.own_loop()
    assert (run.from_iteration, run.to_iteration, run.storage) == (1, 3, tmp_path / "checkpoints")
    trial.at(1)
    trial.close()
    assert trial.channel.sent == []


def test_in_a_loop_of_its_own_the_order_of_the_data_follows_the_iteration_that_is_named(tmp_path):
    def order(trial):
        return torch.cat(list(trial.loader(torch.arange(10), global_batch_size=4))).tolist()

    theirs = a_trial(tmp_path, to_iteration=3)
    expected = [order(theirs) for _ in theirs.iterations()]
    own = a_trial(tmp_path, to_iteration=3)
    own.own_loop()
    for iteration in (2, 0, 1):
        own.at(iteration)
        assert order(own) == expected[iteration]
