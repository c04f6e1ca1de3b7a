"""What a rank does where its checkpoints go into a depot, without any process."""

from __future__ import annotations

import dataclasses
import multiprocessing
from pathlib import Path

import pytest

from rb_core.errors import DamagedCheckpoint, LaunchFailure, StoreFailure
from rb_core.testing import FakeDepot, FolderDepot
from rb_core.testing.launching_contract import a_run
from rb_core.training import checkpoint
from rb_core.training.deposit import brought
from rb_core.training.peers import Alone
from rb_core.trial import Ready, Saved, Trial


class Line:
    """A channel that keeps what is sent."""

    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(message)

    def ask(self, message):
        return message

    def stop_requested(self):
        return False


@pytest.fixture
def depot(tmp_path):
    return FolderDepot(tmp_path / "depot")


@pytest.fixture
def scratch(tmp_path):
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def a_folder(folder: Path, iterations: int = 1) -> Path:
    with checkpoint.filling_folder(folder, iterations) as (draft, final):
        (draft / "count").write_text("1")
    return final


def saved(path: Path) -> Saved:
    return Saved(iterations=1, checkpoint=str(path), size_bytes=1, save_s=1.0)


def start(tmp_path, depot, **changes):
    return dataclasses.replace(a_run(tmp_path, trial=3), depot=depot, **changes)


def test_without_a_depot_everything_stays_as_it_is(tmp_path, scratch):
    run, line = a_run(tmp_path), Line()
    assert brought(run, line, scratch) == (run, line)


def test_a_checkpoint_is_told_of_once_it_lies_in_the_depot(tmp_path, depot, scratch):
    line = Line()
    run, channel = brought(start(tmp_path, depot), line, scratch)
    path = a_folder(checkpoint.trial_folder(run.storage, 3))
    channel.send(saved(path))
    (told,) = line.sent
    assert told.checkpoint.startswith(f"{depot.uri}/trial-0003/iteration-00000001")
    assert told.save_s > 1.0
    assert list(depot.references()) == [told.checkpoint]
    assert not path.exists()


def test_what_could_not_be_kept_is_not_told_and_stays_on_the_node(tmp_path, scratch):
    depot, line = FakeDepot(), Line()
    run, channel = brought(start(tmp_path, depot), line, scratch)
    path = a_folder(run.storage)
    depot.failure = "the store is closed"
    with pytest.raises(StoreFailure, match="the store is closed"):
        channel.send(saved(path))
    assert line.sent == []
    assert path.exists()


def test_other_messages_pass_and_the_fetch_counts_as_restoring(tmp_path, depot, scratch):
    reference, line = depot.push(a_folder(tmp_path), "trial-0003"), Line()
    _, channel = brought(start(tmp_path, depot, deposited=reference), line, scratch)
    channel.send(Ready(restore_s=1.0))
    (ready,) = line.sent
    assert ready.restore_s > 1.0
    assert channel.ask(ready) is ready
    assert not channel.stop_requested()


def test_one_rank_of_the_node_fetches_for_all(tmp_path, depot, scratch):
    reference = depot.push(a_folder(tmp_path), "trial-0003")
    wanted = start(tmp_path, depot, deposited=reference)
    ranks = multiprocessing.get_context("fork")
    with ranks.Pool(3) as pool:
        paths = pool.starmap(_path, [(wanted, scratch)] * 6)
    assert len(set(paths)) == 1
    assert (paths[0] / "count").read_text() == "1"
    depot.delete(reference)
    assert brought(wanted, Line(), scratch)[0].checkpoint == paths[0]


def _path(run, scratch):
    return brought(run, Line(), scratch)[0].checkpoint


def test_a_damaged_one_is_refused_by_every_rank_and_named_by_its_reference(tmp_path, depot, scratch):
    reference = depot.push(a_folder(tmp_path), "trial-0003")
    (Path(reference.removeprefix("file://")) / "count").write_text("2")
    for _ in range(2):
        with pytest.raises(DamagedCheckpoint, match=f"checkpoint {reference} is damaged: count is not as it was"):
            brought(start(tmp_path, depot, deposited=reference), Line(), scratch)
    depot.delete(reference)
    with pytest.raises(DamagedCheckpoint, match=f"checkpoint {reference} is gone"):
        brought(start(tmp_path, depot, deposited=reference), Line(), scratch)


def test_a_launcher_that_knows_nothing_of_depots_trains_nothing(tmp_path, depot):
    with pytest.raises(LaunchFailure, match=f"not in {depot.uri}; choose a folder, or another launcher"):
        Trial(start(tmp_path, depot), rank=0, channel=Line(), peers=Alone())
