from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy import stats

from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType
from rb_core.plan import Objective
from rb_core.spec import ExperimentSpec
from rb_core.target import Target
from rb_plugins.recorded import FunctionRecord, Recorded, findable, read_recorded, source_of, space_words
from rb_plugins.rundir import RunDirectory
from rb_plugins.tuning import Tuning


def train(config, trial):
    """A function that this module holds."""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "the-run").mkdir()
    return RunDirectory(tmp_path / "the-run")


@pytest.fixture
def target(tmp_path):
    (tmp_path / "train.py").write_text("def train(config, trial): ...")
    return Target.parse("train.py:train", base=tmp_path)


def tuning(target, **options):
    return Tuning(
        target=target,
        space={"lr": stats.loguniform(1e-4, 1e-1), "width": [16, None]},
        experiment=ExperimentSpec.from_stages([(2, 1)]),
        cloud=Cloud(instance_types=(InstanceType(name="box", slots=1, usd_per_hour=1.0),)),
        objective=Objective(deadline_s=10.0),
        **options,
    )


def test_what_was_recorded_reads_back(directory, target, tmp_path):
    configs = ({"lr": 0.1, "width": None}, {"lr": 0.01, "width": 16})
    options = {"max_usd": 2.0, "env": {"A": "b"}, "on_deadline": "stop", "mode": "min", "file": tmp_path / "e.toml"}
    recorded = Recorded.of(tuning(target, **options), configs, directory)
    directory.write("request.json", recorded.table())
    assert read_recorded(directory) == recorded
    assert recorded.storage == str(directory.path / "checkpoints")
    assert recorded.function.target("train.py:train") == target


def test_a_storage_of_its_own_is_recorded_with_the_runs_id(directory, target, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    recorded = Recorded.of(tuning(target, storage=Path("kept")), (), directory)
    assert recorded.storage == str(tmp_path / "kept" / "the-run")


def test_nothing_of_the_environment_is_recorded(directory, target, monkeypatch):
    monkeypatch.setenv("TOKEN", "do-not-tell")
    assert "do-not-tell" not in json.dumps(Recorded.of(tuning(target), (), directory).table())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"RUN: .* holds no request\.json, without which a run cannot be resumed; start a new run"),
        ("{", "is not valid JSON"),
        ('{"schema": 2}', "schema: must be 1"),
        ('{"schema": 1}', "is required"),
    ],
)
def test_a_record_that_is_not_as_it_was_written_is_refused(directory, text, message):
    if text is not None:
        directory.request.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        read_recorded(directory)


def test_a_training_file_that_changed_or_is_gone_is_refused(target):
    record = FunctionRecord.of(target)
    target.file.write_text("def train(config, trial): return 1")
    with pytest.raises(InvalidInput, match=r"^train\.target: .*train\.py has changed since the run began.*; restore"):
        record.target("train.py:train")
    target.file.write_text("def train(config, trial): ...")
    assert record.target("train.py:train") == target
    target.file.unlink()
    with pytest.raises(InvalidInput, match=r"^train\.target: .*train\.py cannot be read any more \(No such file"):
        record.target("train.py:train")


def test_a_module_is_found_without_being_imported(tmp_path):
    package = tmp_path / "package" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("raise SystemExit('must not be imported')")
    (package / "deep.py").write_text("raise SystemExit('must not be imported')")
    assert source_of(Target.parse("package.inner.deep:train", base=tmp_path)) == package / "deep.py"
    assert source_of(Target.parse("package.inner:train", base=tmp_path)) == package / "__init__.py"
    assert source_of(Target.parse("package.absent:train", base=tmp_path)) is None
    assert source_of(Target.parse("package.absent.more:train", base=tmp_path)) is None


def test_a_function_of_a_module_is_found_again_and_no_other():
    found = findable(train)
    assert (found.module, found.function, found.folder) == (__name__, "train", Path(__file__).parent)
    assert source_of(found) == Path(__file__)
    assert found.load() is train
    assert findable(lambda config, trial: None) is None
    assert findable(stats.loguniform(1, 2).ppf) is None
    assert findable(len) is None


def test_a_function_of_the_script_itself_is_not_found_again(monkeypatch):
    monkeypatch.setattr(train, "__module__", "__main__")
    assert findable(train) is None


def test_a_space_is_said_as_a_file_says_it():
    space = {
        "lr": stats.loguniform(1e-4, 1e-1),
        "momentum": stats.uniform(0.5, 0.25),
        "layers": stats.randint(1, 4),
        "named": stats.norm(loc=1, scale=2),
        "width": (16, 32),
    }
    assert space_words(space) == {
        "lr": {"loguniform": [1e-4, 1e-1]},
        "momentum": {"uniform": [0.5, 0.75]},
        "layers": {"randint": [1, 4]},
        "named": {"norm": [{"loc": 1, "scale": 2}]},
        "width": [16, 32],
    }
