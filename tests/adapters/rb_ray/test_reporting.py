"""What a trial of Tune's tells it, and what it goes on from: without Ray."""

from __future__ import annotations

import json
import shutil

import pytest
from rb_ray.trainable.allocation import Allocation
from rb_ray.trainable.reporting import ReportChannel, TuneTrial, a_run, restored_from, saving_after, scratch

from rb_core.errors import DamagedCheckpoint, TrialMisuse, UnusableCheckpoint
from rb_core.training.peers import Alone
from rb_core.trial import Remark, Stop

ONE_SLOT = Allocation(trial_id="4f1d2_00003", bundles=({"CPU": 1.0},), node_ids=("a",))
IN_A_STAGE = Allocation(
    trial_id="4f1d2_00003", bundles=({"CPU": 1.0},), node_ids=("a",), stage=1, until=3, max_iterations=5
)


class Told(list):
    """What Tune was told: iterations, score, and the names in the checkpoint's folder."""

    def __call__(self, iterations, score, folder):
        names = [] if folder is None else sorted(path.name for path in folder.iterdir())
        self.append((iterations, score, names))


def a_trial(tmp_path, told, allocation=ONE_SLOT, *, most=None, every=1, restored=(0, None)):
    run = a_run({}, allocation, folder=tmp_path, restored=restored, max_iterations=most, seed=0)
    return TuneTrial(
        run,
        rank=0,
        channel=ReportChannel(),
        peers=Alone(),
        tell=told,
        until=allocation.until,
        save_after=saving_after(every, allocation, run.to_iteration),
    )


def report_all(trial):
    for _ in trial.iterations():
        trial.report(1)


def names(done):
    return [f"iteration-{done:08d}.pt", "rubberband.json"]


def test_each_iteration_is_one_report_with_a_checkpoint_that_is_then_gone(tmp_path):
    told = Told()
    trial = a_trial(tmp_path, told, most=2)
    trial.restore()
    for iteration in trial.iterations():
        trial.report(iteration / 10)
    trial.close()
    assert told == [(1, 0.0, names(1)), (2, 0.1, names(2))]
    assert [path.name for path in (tmp_path / "trial-0003").iterdir()] == ["rubberband.json"]


def test_saved_is_now_and_then_and_at_the_ends_of_stage_and_trial(tmp_path):
    told = Told()
    trial = a_trial(tmp_path, told, IN_A_STAGE, every=4)
    trial.restore()
    report_all(trial)
    trial.close()
    assert [(done, bool(saved)) for done, _, saved in told] == [(1, False), (2, False), (3, True), (4, True), (5, True)]


def test_iterations_without_a_score_are_not_told_but_the_stage_s_last_is(tmp_path):
    told = Told()
    trial = a_trial(tmp_path, told, IN_A_STAGE)
    trial.restore()
    for iteration in trial.iterations():
        if iteration == 1:
            trial.report(0.5)
    trial.report(0.7)
    trial.close()
    assert told == [(2, 0.5, names(2)), (3, 0.5, names(3)), (5, 0.7, names(5))]


def test_folders_that_the_function_fills_come_back_to_it(tmp_path):
    kept = tmp_path / "kept"

    def keep(iterations, score, folder):
        shutil.copytree(folder, kept, dirs_exist_ok=True)

    def counts(trial, so_far):
        assert trial.load() is None if not so_far else (trial.load() / "count").read_text() == str(so_far)
        for iteration in trial.iterations():
            assert trial.save_due == (iteration % 2 == 1)
            if trial.save_due:
                with trial.save() as folder:
                    (folder / "count").write_text(str(iteration + 1))
                trial.report(iteration + 1)
        trial.close()

    counts(a_trial(tmp_path, keep, most=2, every=2), 0)
    with restored_from(kept) as restored:
        counts(a_trial(tmp_path, keep, most=4, every=2, restored=restored), 2)
    with restored_from(kept) as (done, folder):
        assert (done, (folder / "count").read_text()) == (4, "4")


def test_a_stage_without_a_score_is_refused(tmp_path):
    trial = a_trial(tmp_path, Told(), IN_A_STAGE)
    trial.restore()
    with pytest.raises(TrialMisuse, match="the stage ended without a score"):
        list(trial.iterations())


def test_a_function_that_keeps_nothing_is_refused_in_its_first_iteration(tmp_path):
    told = Told()
    trial = a_trial(tmp_path, told)
    with pytest.raises(TrialMisuse, match=r"iteration 0 ended without a checkpoint.*call trial\.restore\("):
        report_all(trial)
    assert told == []


def test_the_end_is_what_the_caller_says_or_else_the_scheduler(tmp_path):
    assert a_trial(tmp_path, Told(), IN_A_STAGE, most=9).max_iterations == 9
    assert a_trial(tmp_path, Told(), IN_A_STAGE).max_iterations == 5
    with pytest.raises(TrialMisuse, match=r"max_iterations=\.\.\."):
        a_trial(tmp_path, Told()).max_iterations  # noqa: B018


def test_without_an_end_tune_alone_ends_it(tmp_path):
    class Ended(Told):
        def __call__(self, iterations, score, folder):
            super().__call__(iterations, score, folder)
            if iterations == 3:
                raise SystemExit(0)

    told = Ended()
    trial = a_trial(tmp_path, told)
    trial.restore()
    with pytest.raises(SystemExit):
        report_all(trial)
    assert [done for done, _, _ in told] == [1, 2, 3]


def test_nobody_answers_on_the_channel(caplog):
    channel = ReportChannel()
    channel.send(Remark(text="a remark"))
    assert "a remark" in caplog.text
    with pytest.raises(ConnectionError):
        channel.ask(Stop())


def test_it_goes_on_from_what_was_told(tmp_path):
    state = tmp_path / "iteration-00000004.pt"
    state.touch()
    (tmp_path / "rubberband.json").write_text(json.dumps({"schema": 1, "iterations": 4, "state": state.name}))
    with restored_from(tmp_path) as restored:
        assert restored == (4, state)
    with restored_from(None) as restored:
        assert restored == (0, None)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (None, UnusableCheckpoint, r"not written by a function that takes \(config, trial\)"),
        ("{", DamagedCheckpoint, "cannot be read"),
        ('{"schema": 1}', DamagedCheckpoint, "cannot be read"),
        ("[]", DamagedCheckpoint, "cannot be read"),
        ('{"schema": 2, "iterations": 1, "state": "x"}', UnusableCheckpoint, "schema 2; this version reads 1"),
    ],
)
def test_what_it_cannot_go_on_from_is_refused(tmp_path, text, error, says):
    if text is not None:
        (tmp_path / "rubberband.json").write_text(text)
    with pytest.raises(error, match=says), restored_from(tmp_path):
        pass


def test_a_folder_that_is_not_there_may_be_on_another_node(tmp_path):
    with pytest.raises(DamagedCheckpoint, match="one that all of them see"), restored_from(tmp_path / "gone"):
        pass


@pytest.mark.parametrize("changes_folder", ["1", "0"])
def test_the_scratch_folder_is_new_and_goes(tmp_path, monkeypatch, changes_folder):
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", changes_folder)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".rubberband").mkdir()
    (tmp_path / ".rubberband" / "old").touch()
    with scratch() as folder:
        assert folder.parent == tmp_path
        assert list(folder.iterdir()) == []
    assert not folder.exists()
