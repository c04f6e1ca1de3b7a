"""Where checkpoints go: folders and addresses, and a whole run on a store that a plugin brings."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from scipy.stats import uniform

from rb_core.errors import DamagedCheckpoint, InvalidInput, StoreFailure
from rb_core.eventlog import read_log
from rb_core.events import TrialStarted
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import Objective
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_core.testing import FakeDepot, FolderDepot
from rb_plugins import hookimpl
from rb_plugins.cli import main
from rb_plugins.manager import make_manager
from rb_plugins.rundir import RunDirectory
from rb_plugins.session import Session
from rb_plugins.storing import below, depot_at, place, scheme_of, storage_of
from rb_plugins.terms import Terms
from rb_plugins.tuning import Measuring

SPEC = ExperimentSpec.from_stages([(3, 2), (1, 2)])
CLOUD = Cloud(
    instance_types=(InstanceType(name="core", slots=1, usd_per_hour=0.17),), max_nodes=1, billing=Billing(minimum_s=0)
)
PROFILE = ScalingProfile(iteration_s={1: Latency(mean=0.02)}, start_s=Latency(mean=0.2))
RELAXED = Objective(deadline_s=600.0)


def train(config, trial):
    trial.load()
    for _ in trial.iterations():
        trial.report(config["x"])
        if trial.save_due:
            with trial.save() as folder:
                (folder / "state").write_text("kept")


def session(tmp_path, depot=None) -> Session:
    make = depot or (lambda uri: FolderDepot(Path(uri.removeprefix("file://"))))
    plugin = SimpleNamespace(rubberband_register_depots=hookimpl(lambda: {"file": make}))
    return Session(manager=make_manager(autoload=False, plugins=[plugin]), directory=tmp_path / "home")


def tune(session: Session, storage, **options):
    return session.tune(
        train, {"x": uniform(0, 1)}, SPEC, CLOUD, RELAXED,
        **{"launcher": "process", "profile": PROFILE, "storage": storage, **options},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "scheme"),
    [("s3://bucket/x", "s3"), ("GS://b", "gs"), ("a/b", ""), ("/a:b", ""), ("c://", "c"), ("://x", ""), (None, "")],
)
def test_an_address_has_a_scheme_and_a_folder_has_none(text, scheme):
    assert scheme_of(text) == scheme


def test_folders_are_relative_to_the_file_and_addresses_to_nothing(tmp_path):
    assert storage_of("checkpoints", tmp_path) == tmp_path / "checkpoints"
    assert storage_of(Path("/elsewhere"), tmp_path) == Path("/elsewhere")
    assert storage_of("s3://bucket/x", tmp_path) == "s3://bucket/x"


def test_each_run_has_a_place_of_its_own(tmp_path):
    directory = RunDirectory(tmp_path / "run-1")
    assert place(None, directory) == str(tmp_path / "run-1" / "checkpoints")
    assert place(Path("/shared"), directory) == "/shared/run-1"
    assert place("s3://bucket/x/", directory) == below("s3://bucket/x", "run-1") == "s3://bucket/x/run-1"


def test_a_folder_has_no_depot():
    assert depot_at(Path("s3:/bucket"), {}) is depot_at("folder", {}) is depot_at(None, {}) is None


def test_a_run_keeps_its_checkpoints_in_the_store_alone(tmp_path):
    outcome = tune(session(tmp_path), f"file://{tmp_path}/store", profile=Measuring(slots=(1,), budget_s=60.0))
    best = outcome.best.checkpoint
    assert best.startswith(f"file://{tmp_path}/store/{outcome.directory.run}/trial-000")
    assert outcome.table()["best"]["checkpoint"] == best
    assert (Path(best.removeprefix("file://")) / "state").read_text() == "kept"
    assert not outcome.directory.checkpoints.exists()
    # What was put there to measure it is gone.
    measured = [path for path in (tmp_path / "store").glob("profile-*") if any(path.glob("*/*"))]
    assert measured == []
    assert session(tmp_path).report().best.checkpoint == best


def test_a_store_that_cannot_be_used_is_found_before_anything_starts(tmp_path):
    depot = FakeDepot()
    depot.failure = "the store is closed"
    with pytest.raises(InvalidInput, match="the store is closed"):
        tune(session(tmp_path, lambda uri: depot), "file:///store")
    assert not (tmp_path / "home").exists()


class Closing(FolderDepot):
    """Takes nothing of a second stage while a file says so."""

    __slots__ = ()

    def push(self, checkpoint, folder):
        if checkpoint.name > "iteration-00000003" and (self.folder.parent / "closed").exists():
            raise StoreFailure("the store is closed")
        return super().push(checkpoint, folder)


def test_a_run_that_its_store_ended_goes_on_from_there(tmp_path):
    def make(uri):
        return Closing(Path(uri.removeprefix("file://")))

    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "closed").touch()
    with pytest.raises(StoreFailure, match="cannot go on without its checkpoints: the store is closed") as caught:
        tune(session(tmp_path, make), f"file://{tmp_path}/store")
    (run,) = (tmp_path / "home" / "runs").iterdir()
    assert caught.value.__notes__ == [f"go on with it: rb-tune run --resume {run.name}"]
    going = session(tmp_path, make).resumable(run.name, Terms(), train=train)
    assert going.request.depot == make(f"file://{tmp_path}/store/{run.name}")
    (tmp_path / "store" / "closed").unlink()
    outcome = session(tmp_path, make).resume(run.name, train)
    assert outcome.ending == "done"
    starts = [event for event in read_log(run / "events.jsonl").events if isinstance(event, TrialStarted)]
    assert [(start.stage, start.from_iteration) for start in starts] == [(0, 0)] * 3 + [(1, 2)] * 3
    assert [path.name for path in (tmp_path / "store" / run.name).glob("*/*")] == [Path(outcome.best.checkpoint).name]


def test_a_run_without_a_log_is_not_begun_again_over_its_checkpoints(tmp_path):
    outcome = tune(session(tmp_path), f"file://{tmp_path}/store")
    outcome.directory.events.unlink()
    with pytest.raises(InvalidInput, match=f"is empty or gone, and yet file://{tmp_path}/store/.* holds checkpoints"):
        session(tmp_path).resumable(outcome.directory.run, Terms(), train=train)


@pytest.mark.parametrize("stored", [False, True])
def test_the_best_checkpoint_is_brought_where_it_is_wanted(tmp_path, stored):
    own = session(tmp_path)
    outcome = tune(own, f"file://{tmp_path}/store" if stored else None)
    path = own.fetch(outcome, tmp_path / "wanted" / "here")
    assert path == tmp_path / "wanted" / "here" / Path(outcome.best.checkpoint).name
    assert (path / "state").read_text() == "kept"
    with pytest.raises(InvalidInput, match=f"^--fetch: must be a folder without {path.name}, but {path} exists"):
        own.fetch(outcome, path.parent)
    (path / "file").touch()
    with pytest.raises(InvalidInput, match=r"^--fetch: .* cannot be written: "):
        own.fetch(outcome, path / "file")
    kept = Path(str(outcome.best.checkpoint).removeprefix("file://"))
    (kept / "state").write_text("kepT")
    with pytest.raises(DamagedCheckpoint, match=f"{kept} is damaged: state is not as it was written"):
        own.fetch(outcome, tmp_path / "damaged")
    shutil.rmtree(kept)
    with pytest.raises(DamagedCheckpoint, match=f"{kept} is gone"):
        own.fetch(outcome, tmp_path / "damaged")
    assert list((tmp_path / "damaged").glob("[!.]*")) == []


def test_the_command_brings_it_too(experiment, tmp_path):
    command = CliRunner()
    assert command.invoke(main, ["run", str(experiment)]).exit_code == 0
    told = command.invoke(main, ["report", "--fetch", str(tmp_path / "wanted")])
    assert told.exit_code == 0
    (path,) = (tmp_path / "wanted").iterdir()
    assert f"the best checkpoint is in {path}" in told.stderr
    assert (path / "state").read_text() == "kept"
