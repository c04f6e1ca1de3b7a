import errno
import os
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

from rb_core.errors import DamagedCheckpoint, UnusableCheckpoint
from rb_core.training import checkpoint, checksums


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


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(b""), "is damaged: it is empty; go on from an earlier one"),
        (lambda path: path.write_bytes(path.read_bytes()[:2000]), "not end with a checksum, so it is cut short"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "it does not end with a checksum"),
        (lambda path: path.write_bytes(b"hello world"), "not one of ours"),
        (lambda path: torch.save({"schema": 1}, path), "not one of ours"),
        (lambda path: path.unlink(), "could not be read: No such file or directory"),
    ],
)
def test_a_damaged_state_is_refused_and_the_damage_named(tmp_path, damage, said):
    path = checkpoint.write_state(tmp_path, 1, {"state": torch.zeros(1000)}, verify=False)
    damage(path)
    with pytest.raises(DamagedCheckpoint, match=f"iteration-00000001.*{said}"):
        checkpoint.read_state(path)


def test_no_flipped_bit_of_a_state_goes_unnoticed(tmp_path):
    path = checkpoint.write_state(tmp_path, 1, {"state": torch.arange(4.0)}, verify=False)
    written = path.read_bytes()
    for place in range(len(written)):
        flipped = bytearray(written)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        assert checksums.flaw_of_file(path), f"byte {place}"
    path.write_bytes(written)
    assert checksums.flaw_of_file(path) == ""


def test_torch_alone_would_load_wrong_weights(tmp_path):
    path = checkpoint.write_state(tmp_path, 1, {"state": torch.full((1000,), 1.5)}, verify=False)
    written = bytearray(path.read_bytes())
    written[written.index(torch.full((4,), 1.5).numpy().tobytes())] ^= 1
    path.write_bytes(written)
    assert not torch.equal(torch.load(path, weights_only=True)["state"], torch.full((1000,), 1.5))
    with pytest.raises(DamagedCheckpoint, match="its checksum differs"):
        checkpoint.read_state(path)


def test_a_state_is_still_an_archive_that_others_can_read(tmp_path):
    path = checkpoint.write_state(tmp_path, 1, {"state": torch.eye(2)}, verify=False)
    assert torch.equal(torch.load(path, weights_only=True, mmap=True)["state"], torch.eye(2))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_what_is_undamaged_but_of_another_kind_is_not_called_damaged(tmp_path):
    path = checkpoint.write_state(tmp_path, 1, {"state": 1}, verify=False)
    (tmp_path / "folder").mkdir()
    torch.save({"schema": 99}, tmp_path / "newer.pt")
    checksums.seal(tmp_path / "newer.pt")
    for read, other, said in (
        (checkpoint.read_state, tmp_path / "newer.pt", "not of schema 1"),
        (checkpoint.read_state, tmp_path / "folder", r"folder that trial\.save\(\) made"),
        (checkpoint.read_folder, path, r"not a folder that trial\.save\(\) made"),
    ):
        with pytest.raises(UnusableCheckpoint, match=said) as caught:
            read(other)
        assert not isinstance(caught.value, DamagedCheckpoint)


def test_reading_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    path = tmp_path / "bomb.pt"
    torch.save({"schema": 1, "state": Bomb()}, path)
    checksums.seal(path)
    with pytest.raises(UnusableCheckpoint, match="is undamaged, but torch cannot load it safely"):
        checkpoint.read_state(path)
    assert not (tmp_path / "exploded").exists()


def test_a_folder_counts_once_it_is_complete_and_never_replaces_one(tmp_path):
    for expected in ("iteration-00000003", "iteration-00000003-2"):
        with checkpoint.filling_folder(tmp_path, 3) as (folder, final):
            (folder / "a").write_text("abc")
            assert not final.exists()
        assert final.name == expected
        assert checkpoint.read_folder(final) == final
        assert checkpoint.size_bytes(final) == 3


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "sub" / "b").write_bytes(b"12"), "is damaged: sub/b has 2 bytes, not 3; go on from"),
        (lambda folder: (folder / "a").write_bytes(b""), "a has 0 bytes, not 3"),
        (lambda folder: (folder / "a").write_bytes(b"abb"), "a is not as it was written"),
        (lambda folder: (folder / "a").unlink(), "a is missing"),
        (lambda folder: (folder / checksums.LIST).unlink(), "its list of files, .* is missing"),
        (lambda folder: (folder / checksums.LIST).write_bytes(b""), "its list of files, .* is not as it was written"),
        (lambda folder: (folder / checksums.LIST).write_bytes(b"{}"), "its list of files, .* is not as it was written"),
        (lambda folder: folder.rename(folder.with_name("elsewhere")), "could not be read: No such file or directory"),
    ],
)
def test_a_damaged_folder_is_refused_and_the_damage_named(tmp_path, damage, said):
    with checkpoint.filling_folder(tmp_path, 3) as (folder, final):
        (folder / "a").write_text("abc")
        (folder / "sub").mkdir()
        (folder / "sub" / "b").write_text("123")
    assert checkpoint.read_folder(final) == final
    damage(final)
    with pytest.raises(DamagedCheckpoint, match=f"iteration-00000003.*{said}"):
        checkpoint.read_folder(final)


def test_links_and_later_additions_are_not_part_of_a_folder(tmp_path):
    (tmp_path / "base").write_text("base")
    with checkpoint.filling_folder(tmp_path / "trial", 3) as (folder, final):
        (folder / "link").symlink_to(tmp_path / "base")
    (tmp_path / "base").write_text("changed")
    (final / "notes").write_text("mine")
    assert checkpoint.read_folder(final) == final


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
