import errno
import os
from collections import OrderedDict

import numpy as np
import pytest
import torch

from rb_core.errors import UnusableCheckpoint
from rb_core.training import checkpoint


def test_what_was_written_is_read_back(tmp_path):
    state = {"state": {"a": OrderedDict(w=torch.eye(2)), "b": [1, (2.5, None, "x")]}}
    path = checkpoint.write_state(tmp_path / "new" / "folder", 12, state, verify=True)
    assert path.name == "iteration-00000012.pt"
    read = checkpoint.read_state(path)
    assert torch.equal(read["state"]["a"]["w"], torch.eye(2))
    assert read["state"]["b"] == [1, (2.5, None, "x")]
    assert read["iterations"] == 12
    assert checkpoint.size_bytes(path) == path.stat().st_size


def test_numpy_scalars_become_plain_numbers(tmp_path):
    path = checkpoint.write_state(tmp_path, 1, {"state": {"lr": np.float64(0.5), "n": [np.int32(3)]}}, verify=True)
    read = checkpoint.read_state(path)["state"]
    assert (read, type(read["lr"]), type(read["n"][0])) == ({"lr": 0.5, "n": [3]}, float, int)


@pytest.mark.parametrize("verify", [True, False])
def test_a_value_that_cannot_be_saved_is_named(tmp_path, verify):
    state = {"model": 1, "optimizer": {"groups": [0, {"f": lambda: None}]}}
    with pytest.raises(UnusableCheckpoint, match=r"^optimizer\.groups\[1\]\.f is a builtins\.function"):
        checkpoint.write_state(tmp_path, 1, {"state": state}, verify=verify)
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_is_unsafe_to_read_is_named_at_the_first_save(tmp_path):
    with pytest.raises(UnusableCheckpoint, match=r"^model\.a is a numpy\.ndarray"):
        checkpoint.write_state(tmp_path, 1, {"state": {"model": {"a": np.zeros(3)}}}, verify=True)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_earlier_checkpoint_of_the_same_name(tmp_path):
    path = checkpoint.write_state(tmp_path, 1, {"state": 1}, verify=True)
    with pytest.raises(UnusableCheckpoint):
        checkpoint.write_state(tmp_path, 1, {"state": lambda: None}, verify=True)
    assert checkpoint.read_state(path)["state"] == 1


def test_left_overs_of_a_killed_save_are_removed_by_the_next(tmp_path):
    (tmp_path / ".iteration-00000001.pt.part").write_text("half")
    (tmp_path / ".iteration-00000001.part").mkdir()
    path = checkpoint.write_state(tmp_path, 2, {"state": 1}, verify=False)
    assert list(tmp_path.iterdir()) == [path]


def test_a_storage_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableCheckpoint, match="could not be written: Not a directory; free some space"):
        checkpoint.write_state(tmp_path / "file" / "sub", 1, {"state": 1}, verify=False)


@pytest.mark.parametrize("damage", ["empty", "torn", "foreign", "missing", "folder", "other schema"])
def test_what_cannot_be_read_is_one_error(tmp_path, damage):
    path = checkpoint.write_state(tmp_path, 1, {"state": torch.zeros(1000)}, verify=False)
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:2000])
    elif damage == "foreign":
        path.write_bytes(b"hello world")
    elif damage == "missing":
        path.unlink()
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        torch.save({"schema": 99}, path)
    with pytest.raises(UnusableCheckpoint, match="iteration-00000001"):
        checkpoint.read_state(path)


def test_reading_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    path = tmp_path / "bomb.pt"
    torch.save({"schema": 1, "state": Bomb()}, path)
    with pytest.raises(UnusableCheckpoint):
        checkpoint.read_state(path)
    assert not (tmp_path / "exploded").exists()


def test_a_folder_counts_once_it_is_complete_and_never_replaces_one(tmp_path):
    for expected in ("iteration-00000003", "iteration-00000003-2"):
        with checkpoint.filling_folder(tmp_path, 3) as (folder, final):
            (folder / "a").write_text("abc")
            assert not final.exists()
        assert final.name == expected
        assert checkpoint.size_bytes(final) == 3


def test_an_error_of_the_system_while_filling_is_said(tmp_path):
    with (
        pytest.raises(UnusableCheckpoint, match="No space left"),
        checkpoint.filling_folder(tmp_path, 3),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_deleting_is_idempotent_for_files_and_folders(tmp_path):
    file = checkpoint.write_state(tmp_path, 1, {"state": 1}, verify=False)
    with checkpoint.filling_folder(tmp_path, 2) as (folder, final):
        (folder / "a").write_text("abc")
    for path in (file, final, str(file), tmp_path / "never" / "was"):
        checkpoint.delete(path)
        checkpoint.delete(path)
    assert list(tmp_path.iterdir()) == []
