"""The user's code on its way to other machines, and what becomes of its path there."""

from pathlib import Path

import pytest
from launched import joined, on
from rb_ray.launching import luggage
from rb_ray.launching.host import moved

from rb_core.errors import FailureKind, InvalidInput
from rb_core.target import Target
from rb_core.testing.launching_contract import Story
from rb_core.trial import Remark

TRAIN = """
from pathlib import Path
from rb_core.trial import Remark
from beside import PLACE

def train(config, trial):
    trial.restore()
    for text in (PLACE, __file__, *sorted(p.name for p in Path(__file__).parent.iterdir() if p.suffix == ".txt")):
        trial.channel.send(Remark(text=str(text)))
    for _ in trial.iterations():
        trial.report(0)
"""


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "beside.py").write_text("PLACE = __file__\n")
    (folder / "goes.txt").write_text("small")
    (folder / "stays.txt").write_text("large")
    (folder / ".rayignore").write_text("stays.txt\n")
    return folder


@pytest.mark.long
def test_a_copy_of_the_folder_goes_along_without_what_is_to_stay(ray_cluster, code, tmp_path):
    with joined(Target.parse("train.py:train", base=code), ships=True) as home:
        story = Story(home.launcher, on(home.slots(*home.launch(1)), tmp_path)).to_end()
    assert story.failure is None
    beside, train, *texts = [remark.text for remark in story.all(Remark)]
    assert Path(beside).parent == Path(train).parent != code
    assert Path(train).name == "train.py"
    assert texts == ["goes.txt"]


def test_a_folder_that_is_too_large_is_refused_before_anything_is_started(ray_cluster, code, monkeypatch):
    monkeypatch.setattr("rb_ray.launching.luggage.MOST_MIB", 1)
    (code / "data.bin").write_bytes(bytes(2**20 + 1))
    launcher = joined(Target.parse("train.py:train", base=code), ships=True)
    with pytest.raises(InvalidInput, match=r"train.target: the folder of the code, .*more than 1 MiB.*\.rayignore"):
        launcher.__enter__()
    (code / ".gitignore").write_text("*.bin\n")
    assert luggage.pack(code)["working_dir"].startswith("gcs://")


def test_what_travels_is_the_folder_that_the_function_is_found_in(code):
    assert luggage.folder_of(Target.parse("train.py:train", base=code)) == code
    assert luggage.folder_of(Target.parse("train:train", base=code)) == code
    assert luggage.folder_of(Target.parse("rb_core.testing.launching_contract:counts", base=code)) is None
    assert luggage.folder_of(Target.of(lambda config, trial: None)) is None


def test_paths_follow_the_folder(code):
    new = Path("/elsewhere")
    by_file = moved(Target.parse("train.py:train", base=code), code, new)
    assert (by_file.file, by_file.folder) == (new / "train.py", new)
    by_module = moved(Target.parse("train:train", base=code), code, new)
    assert (by_module.module, by_module.folder) == ("train", new)
    by_value = Target.of(lambda config, trial: None)
    assert moved(by_value, code, new) == by_value


def test_addresses_of_this_machine_are_told_from_others():
    assert luggage.is_here("127.0.0.9")
    assert not luggage.is_here("198.51.100.1")


def test_a_function_that_fails_on_import_is_refused_at_the_start(ray_cluster, code):
    (code / "beside.py").write_text("raise OSError('no such disk')\n")
    launcher = joined(Target.parse("train.py:train", base=code))
    with pytest.raises(InvalidInput, match=r"train.py:train could not be imported: OSError: no such disk"):
        launcher.__enter__()


@pytest.mark.long
def test_a_function_that_fails_on_import_on_one_node_alone_fails_its_trials_for_good(ray_cluster, code, tmp_path):
    with joined(Target.parse("train.py:train", base=code)) as home:
        (code / "beside.py").write_text("raise OSError('no such disk')\n")
        failure = Story(home.launcher, on(home.slots(*home.launch(1)), tmp_path)).to_end().failure
    assert failure.kind is FailureKind.RAISED
    assert "OSError: no such disk" in failure.cause
