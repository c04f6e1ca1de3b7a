"""What every depot keeps, as a test suite."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from pathlib import Path

from rb_core.errors import DamagedCheckpoint
from rb_core.ports import Depot
from rb_core.training import checkpoint


class DepotContract(ABC):
    """What every depot keeps. Subclass it, answer `make`, and let pytest collect the subclass."""

    @abstractmethod
    def make(self, tmp_path: Path) -> Depot:
        """A depot that works and holds nothing."""

    def test_a_check_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """It can be tried out before a run as well as within one."""
        depot = self.make(tmp_path)
        depot.check()
        reference = depot.push(_file(tmp_path), "trial-0000")
        depot.check()
        assert list(depot.references()) == [reference]

    def test_a_file_comes_back_as_it_was(self, tmp_path: Path) -> None:
        """Byte for byte."""
        depot, path = self.make(tmp_path), _file(tmp_path)
        depot.fetch(depot.push(path, "trial-0000"), tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == path.read_bytes()

    def test_a_folder_comes_back_as_it_was(self, tmp_path: Path) -> None:
        """With folders in it, empty ones and empty files too, and undamaged."""
        depot, path = self.make(tmp_path), _folder(tmp_path)
        reference = depot.push(path, "trial-0000")
        depot.fetch(reference, tmp_path / "back")
        checkpoint.verify(tmp_path / "back", reference)
        assert _contents(tmp_path / "back") == _contents(path)

    def test_no_two_pushes_have_one_reference(self, tmp_path: Path) -> None:
        """What is complete is never replaced."""
        depot = self.make(tmp_path)
        references = [depot.push(path, "trial-0000") for path in (_file(tmp_path), _folder(tmp_path)) for _ in "ab"]
        assert len(set(references)) == 4
        assert sorted(depot.references()) == sorted(references)
        assert all(reference.startswith(f"{depot.uri}/") for reference in references)

    def test_what_is_deleted_is_gone_and_the_rest_is_not(self, tmp_path: Path) -> None:
        """Deleting is idempotent."""
        depot = self.make(tmp_path)
        for path in (_file(tmp_path), _folder(tmp_path)):
            doomed, kept = depot.push(path, "trial-0000"), depot.push(path, "trial-0000")
            for _ in range(2):
                depot.delete(doomed)
                assert list(depot.references()) == [kept]
            assert doomed in _fetching_fails(depot, doomed, tmp_path / f"back-{path.name}")
            depot.delete(kept)

    def test_a_pickled_copy_is_as_good(self, tmp_path: Path) -> None:
        """Ranks get one."""
        depot = self.make(tmp_path)
        reference = pickle.loads(pickle.dumps(depot)).push(_file(tmp_path), "trial-0000")
        depot.fetch(reference, tmp_path / "back")


def _fetching_fails(depot: Depot, reference: str, path: Path) -> str:
    try:
        depot.fetch(reference, path)
    except DamagedCheckpoint as error:
        return str(error)
    raise AssertionError("fetch() of what is gone must raise DamagedCheckpoint")


def _file(folder: Path) -> Path:
    path = folder / "iteration-00000001.pt"
    path.write_bytes(bytes(range(256)) * 50)
    return path


def _folder(folder: Path) -> Path:
    with checkpoint.filling_folder(folder / "trial", 1) as (draft, final):
        (draft / "deep" / "deeper").mkdir(parents=True)
        (draft / "deep" / "state").write_text("kept")
        (draft / "empty").write_text("")
        (draft / "bare").mkdir()
    return final


def _contents(folder: Path) -> dict[str, bytes | None]:
    paths = folder.rglob("*")
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}
