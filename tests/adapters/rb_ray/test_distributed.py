"""Trials of several ranks in Ray Tune, on one local cluster: what they compute, how they go on, how they fail."""

from __future__ import annotations

import json
import os
import select
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
import ray
import rb_ray
import torch
import tuned
from ray import tune
from rb_ray import _compat

from rb_core.errors import InvalidInput
from rb_core.ports import Slot, TrialRun
from rb_core.training.peers import Alone
from rb_core.training.randomness import seed_all
from rb_core.trial import Trial

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """A cluster of one node that says it has four CPUs, to start two trials of two ranks at once."""
    folder = tempfile.mkdtemp(prefix="rb", dir="/tmp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("HOME", folder)  # where Ray keeps the token that it makes up
        patch.setenv("RAY_AIR_NEW_OUTPUT", "0")
        _compat.reread_token()  # of a cluster that this process used before
        ray.init(
            address="local",
            num_cpus=4,
            _temp_dir=folder,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=78_643_200,
        )
        yield
        ray.shutdown()
    _compat.reread_token()
    shutil.rmtree(folder, ignore_errors=True)


def slots(config):
    """As many bundles as the configuration says."""
    config = config.get("case", config)
    return tune.PlacementGroupFactory([{"CPU": 1}] * config["ranks"])


def fit(train, tmp_path, space, *, failures=0, scheduler=None, stop=None):
    tuner = tune.Tuner(
        tune.with_resources(train, slots),
        param_space={"notes": str(tmp_path), **space},
        tune_config=tune.TuneConfig(scheduler=scheduler),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path / "storage"),
            name="run",
            stop=stop,
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=failures),
        ),
    )
    return tuner.fit()


def notes(tmp_path, name):
    """What the ranks have noted under a name: by rank, in the order of starts."""
    found: dict[int, list] = {}
    for file in sorted(tmp_path.glob(f"{name}.rank-*")):
        found.setdefault(int(file.name.split("rank-")[1].split(".")[0]), []).append(json.loads(file.read_text()))
    return found


def ends(pid):
    """Whether a process is gone, or goes within a time that is long against what that takes."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(process, "rb"):
        return bool(select.select([process], [], [], 30.0)[0])


def state(file):
    return torch.load(file, weights_only=True)["state"]["model"]


def weights(checkpoint):
    (file,) = Path(checkpoint.path).glob("iteration-*.pt")
    return state(file)


def largest_difference(a, b):
    return max((a[name] - b[name]).abs().max().item() for name in a)


class Nobody:
    """A channel that leads nowhere."""

    def send(self, message):
        pass

    def stop_requested(self):
        return False


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The weights after two and after six iterations of the core's own trial, as `rb-tune run` would train them."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run = TrialRun(
        trial=0,
        stage=0,
        config={},
        slots=(Slot(node="", index=0),),
        from_iteration=0,
        to_iteration=6,
        max_iterations=6,
        checkpoint=None,
        storage=folder,
        logs=folder,
    )
    seed_all(0, 0)
    tuned.fits({}, Trial(run, rank=0, channel=Nobody(), peers=Alone(), save_after=lambda done: done == 2))
    return {done: state(folder / "trial-0000" / f"iteration-{done:08d}.pt") for done in (2, 6)}


class Widths(tune.schedulers.TrialScheduler):
    """Pauses its only trial every two iterations and gives it another number of slots.

    What it was told is kept by the class, since Tune makes copies of schedulers; the results that Tune itself keeps in
    files it may lose when a trial starts again at once.
    """

    told: ClassVar[list[int]] = []

    def __init__(self, widths):
        super().__init__()
        self.told.clear()
        self.widths = list(widths)
        self.stage = 0
        self.due = False

    def placement(self):
        return rb_ray.StagePlacement(
            [{"CPU": 1}] * self.widths[self.stage],
            stage=self.stage,
            until=2 * self.stage + 2,
            max_iterations=2 * len(self.widths),
        )

    def set_search_properties(self, metric, mode, **spec):
        return True

    def on_trial_add(self, controller, trial):
        trial.update_resources(self.placement())

    def on_trial_result(self, controller, trial, result):
        self.told.append(result["training_iteration"])
        if result["training_iteration"] < 2 * self.stage + 2:
            return self.CONTINUE
        if self.stage == len(self.widths) - 1:
            return self.STOP
        self.stage, self.due = self.stage + 1, True
        return self.PAUSE

    def on_trial_error(self, controller, trial):
        pass

    def on_trial_complete(self, controller, trial, result):
        pass

    def on_trial_remove(self, controller, trial):
        pass

    def choose_trial_to_run(self, controller):
        for trial in controller.get_trials():
            if trial.status == "PENDING":
                return trial
            if trial.status == "PAUSED" and self.due:
                self.due = False
                trial.update_resources(self.placement())
                return trial
        return None

    def debug_string(self):
        return ""


@pytest.mark.long
def test_a_trial_that_changes_its_width_ends_with_the_weights_of_an_undisturbed_one(tmp_path, undisturbed):
    # Nothing but the ends of stages is saved, of which the scheduler tells.
    train = rb_ray.distributed(tuned.fits, metric="loss", checkpoint_every=100)
    (result,) = fit(train, tmp_path, {"ranks": 1}, scheduler=Widths([1, 2, 1]))
    assert result.error is None
    assert Widths.told == [1, 2, 3, 4, 5, 6]
    (alone, _), _, (last, _) = result.best_checkpoints
    assert largest_difference(weights(alone), undisturbed[2]) == 0
    assert largest_difference(weights(last), undisturbed[6]) < 1e-5
    assert largest_difference(weights(alone), weights(last)) > 1e-3
    starts = notes(tmp_path, "start")
    assert [start[1:] for start in starts[0]] == [[0, 1, 6], [2, 2, 6], [4, 1, 6]]
    assert [start[1:] for start in starts[1]] == [[2, 2, 6]]
    assert all(ends(start[0]) for rank in starts.values() for start in rank)


FAILURES = [
    {"how": "fail while rank 1 hangs", "rank": 0, "ranks": 2},
    {"how": "fail while rank 0 hangs", "rank": 1, "ranks": 2},
    {"how": "kill", "rank": 0, "ranks": 2},
    {"how": "kill", "rank": 1, "ranks": 2},
    {"how": "part", "rank": 0, "ranks": 2},
]


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """The error of each failure, and the processes of its ranks; all fail in one experiment."""
    folder = tmp_path_factory.mktemp("failed")
    train = rb_ray.distributed(tuned.misbehaves, timeout_s=60)
    found = {}
    for result in fit(train, folder, {"case": tune.grid_search(FAILURES)}):
        how, rank = result.config["case"]["how"], result.config["case"]["rank"]
        found[how, rank] = str(result.error), notes(folder, f"{how} {rank}")
    return found


@pytest.mark.parametrize(
    ("how", "rank", "says"),
    [
        ("fail while rank 1 hangs", 0, ["ValueError: boom"]),
        ("fail while rank 0 hangs", 1, ["rank 1 failed: ValueError: boom", 'raise ValueError("boom")']),
        ("kill", 0, ["The actor died"]),
        ("kill", 1, ["rank 1 failed: its process ended", "ActorDiedError"]),
        ("part", 0, ["rank 1 failed: the ranks of the trial went different ways", "rank 0 is at 'elsewhere'"]),
    ],
)
def test_the_trial_fails_with_the_true_cause_and_leaves_no_process(failed, how, rank, says):
    error, processes = failed[how, rank]
    assert [text for text in says if text not in error] == [], error
    assert sorted(processes) == [0, 1]
    assert all(ends(pid) for pids in processes.values() for pid in pids)


@pytest.mark.long
def test_a_plain_function_sees_the_same_of_tune_on_every_rank(tmp_path):
    train = tune.with_parameters(rb_ray.distributed(tuned.plain), offset=0.5)
    (result,) = fit(train, tmp_path, {"ranks": 2}, failures=1, stop={"training_iteration": 4})
    assert result.error is None
    assert result.metrics["total"] == 2**2 + 0.5
    starts = notes(tmp_path, "start")
    assert starts[1] == starts[0]
    assert [(start[0], start[1], len(start[3])) for start in starts[0]] == [(0, True, 2), (2, True, 2)]


class Looks(tune.Trainable):
    """A class trainable that reports what it holds."""

    def step(self):
        asked, told = rb_ray.get_allocation(), rb_ray.get_allocation(self)
        assert (asked.bundles, asked.node_ids) == (told.bundles, told.node_ids)
        mine = asked.trial_id == "" and told.trial_id == self.trial_id
        return {"slots": told.slots, "cpus": told.cpus_per_slot, "stage": told.stage, "mine": mine, "done": True}

    def save_checkpoint(self, folder):
        return {}


def test_a_class_trainable_sees_what_it_holds(tmp_path):
    placement = rb_ray.StagePlacement([{"CPU": 2}] * 2, stage=3)
    run_config = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    (result,) = tune.Tuner(tune.with_resources(Looks, placement), run_config=run_config).fit()
    assert result.error is None
    assert {name: result.metrics[name] for name in ("slots", "cpus", "stage", "mine")} == {
        "slots": 2,
        "cpus": 2.0,
        "stage": 3,
        "mine": True,
    }


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (3, "must be a function"),
        (tune.Trainable, "must be a function"),
        (lambda: None, r"must accept \(config, trial\) or \(config\)"),
    ],
)
def test_what_is_no_training_function_is_refused(function, problem):
    with pytest.raises(InvalidInput, match=problem):
        rb_ray.distributed(function)


def test_a_function_that_yields_is_refused():
    def yields(config):
        yield 1

    with pytest.raises(InvalidInput, match="in place of yield"):
        rb_ray.distributed(yields)


@pytest.mark.parametrize(
    "options", [{"metric": ""}, {"backend": ""}, {"timeout_s": 0}, {"checkpoint_every": 0}, {"max_iterations": 0.5}]
)
def test_options_out_of_their_limits_are_refused(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        rb_ray.distributed(tuned.fits, **options)


def test_outside_of_tune_it_says_what_it_is_for():
    with pytest.raises(InvalidInput, match=r"tune\.Tuner, which alone can run it"):
        rb_ray.distributed(tuned.fits)({})


def test_the_trainable_keeps_name_text_and_resources():
    train = tune.with_resources(lambda config: None, {"CPU": 3})
    train.__doc__ = "A text."
    train.__name__ = "train"
    trainable = rb_ray.distributed(train)
    assert (trainable.__name__, trainable.__doc__) == ("train", "A text.")
    assert vars(trainable) == vars(train)
