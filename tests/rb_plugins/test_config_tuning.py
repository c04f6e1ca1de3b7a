from __future__ import annotations

import pytest

from rb_core.errors import InvalidInput
from rb_core.hardware import Latency
from rb_core.plan import Policies
from rb_plugins.config.tuning import load_tuning
from rb_plugins.tuning import Measuring

TRAIN = """
def train(config, trial):
    raise SystemExit("must not be run")
raise SystemExit("must not be imported")
"""

FILE = """
name = "digits"
[train]
target = "train.py:train"
metric = "accuracy"
mode = "max"
seed = 0
[space]
lr = {loguniform = [1e-4, 1e-1]}
momentum = {uniform = [0.5, 0.99]}
layers = {randint = [1, 4]}
width = [16, 32, 64]
[experiment]
successive_halving = {n = 27, r = 3, R = 27, eta = 3}
[profile]
slots = [1, 2]
budget_s = "30s"
[cloud]
provider = "local"
instance_types = [{name = "box", slots = 1, usd_per_hour = 0.17}]
max_nodes = 2
billing = {minimum_s = 0}
[run]
launcher = "ddp"
storage = "checkpoints"
checkpoint_every_s = "10m"
max_usd = 5.0
on_deadline = "stop"
env = {OMP_NUM_THREADS = "1"}
[objective]
deadline_s = "1.3x"
"""


@pytest.fixture
def load(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)

    def load(text):
        (tmp_path / "e.toml").write_text(text)
        return load_tuning(tmp_path / "e.toml", price_books=lambda name: pytest.fail(name))

    return load


def test_every_value_of_a_file_arrives_and_nothing_is_imported(load, tmp_path):
    tuning = load(FILE)
    assert (tuning.name, tuning.metric, tuning.mode, tuning.seed) == ("digits", "accuracy", "max", 0)
    assert tuning.target.name == "train.py:train"
    assert [stage.trials for stage in tuning.experiment.chains[0]] == [27, 9, 3]
    assert tuning.profile == Measuring(slots=(1, 2), budget_s=30.0)
    assert (tuning.cloud.provider, tuning.cloud.max_nodes, tuning.cloud.billing.minimum_s) == ("local", 2, 0.0)
    assert tuning.objective.deadline_factor == 1.3
    assert tuning.storage == tmp_path / "checkpoints"
    assert (tuning.launcher, tuning.checkpoint_every_s, tuning.max_usd) == ("ddp", 600.0, 5.0)
    assert (tuning.on_deadline, tuning.file) == ("stop", tmp_path / "e.toml")
    assert tuning.env == {"OMP_NUM_THREADS": "1"}
    assert set(tuning.space) == {"lr", "momentum", "layers", "width"}
    assert tuning.space["momentum"].ppf([0.0, 1.0]) == pytest.approx([0.5, 0.99])
    assert tuning.space["layers"].support() == (1, 3)
    assert tuning.space["width"] == [16, 32, 64]


def test_the_shortest_file(load):
    tuning = load("""
        train.target = "train.py:train"
        space.lr = [1]
        experiment.hyperband = {R = 9, eta = 3}
        cloud.instance_types = [{name = "box", slots = 1, usd_per_hour = 0}]
        objective.deadline_s = "2h"
    """)
    assert tuning.name == "e"
    assert tuning.profile == Measuring()
    assert tuning.launcher == "ddp"
    assert tuning.storage is None


def test_a_profile_may_be_known(load, tmp_path):
    measuring = '[profile]\nslots = [1, 2]\nbudget_s = "30s"\n'
    assert measuring in FILE
    inline = load(FILE.replace(measuring, "[profile]\niteration_s = {1 = 3.0}\n"))
    assert inline.profile.iteration_s == {1: Latency(mean=3.0)}
    (tmp_path / "p.json").write_text('{"iteration_s": {"1": 3.0}}')
    assert load('profile = "p.json"\n' + FILE.replace(measuring, "")).profile == inline.profile


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"train.py:train"', '"train.py"', r"^train\.target: must be FILE\.py:FUNCTION"),
        ('"train.py:train"', '"other.py:train"', r"^train\.target: file .*other\.py could not be read"),
        ('"train.py:train"', '"train.py:fit"', r"^train\.target: there is no 'fit'"),
        ('mode = "max"', 'mode = "best"', r"^train\.mode: must be one of 'max' or 'min', got 'best'"),
        ("seed = 0", "seed = -1", r"^train\.seed: must be an integer of at least 0, got -1"),
        ('metric = "accuracy"', "", None),
        ('metric = "accuracy"', 'metric = ""', r"^train\.metric: must be a non-empty string"),
        ("[1e-4, 1e-1]", "[0, 1e-1]", r"^space\.lr\.loguniform\[0\]: must be above 0"),
        ("loguniform", "loguniformly", r"^space\.lr\.loguniformly: must be the name of a scipy\.stats"),
        ("loguniform", "log_uniform", r"^space\.lr\.log_uniform: must be .*, got 'log_uniform'; write loguniform"),
        ("loguniform", "logunifrom", r"; write loguniform"),
        ("randint", "int", r"^space\.layers\.int: must be .*; write randint"),
        (
            "[16, 32, 64]",
            "{choice = [16, 32]}",
            r"^space\.width\.choice: .*; write choices as a list, such as \[16, 32\]",
        ),
        ("[space]", "[spaces]", r"^spaces: is not a known key; did you mean space\? known: "),
        ("target =", "traget =", r"^train\.traget: is not a known key; did you mean target\? known: "),
        (
            'mode = "max"',
            'mode = "maximize"',
            r"^train\.mode: must be one of 'max' or 'min', got 'maximize'; write \"max\"",
        ),
        ("[16, 32, 64]", "16", r"^space\.width: must be a list of choices"),
        ("[16, 32, 64]", "[]", r"^space\.width: must hold at least one choice"),
        ("[16, 32, 64]", "{choice = 3}", r"^space\.width: must be a list of choices"),
        ("R = 27", "R = 2", r"^experiment\.successive_halving\.r: must not exceed R \(2\), got 3"),
        (
            "slots = [1, 2]",
            "slots = 2",
            r"^profile\.slots: must be a list of numbers of slots, such as \[1, 2\], got 2",
        ),
        (
            "slots = [1, 2]",
            "iteration_s = 3.0",
            r"^profile\.budget_s: says how to measure, .*; write either a profile such ",
        ),
        ("slots = [1, 2]", "slots = [1, 0]", r"^profile\.slots\[1\]: must be a positive integer, got 0"),
        ('"30s"', '"soon"', r"^profile\.budget_s: must be seconds or a duration"),
        ('"10m"', "0", r"^run\.checkpoint_every_s: must be a finite number above 0"),
        ('"stop"', '"later"', r"^run\.on_deadline: must be one of 'finish' or 'stop', got 'later'"),
        ("max_usd = 5.0", "max_usd = -1", r"^run\.max_usd: must be a finite number above 0"),
        ('"checkpoints"', '""', r"^run\.storage: must be a folder, or an address such as s3://bucket/prefix, got noth"),
        ('OMP_NUM_THREADS = "1"', "OMP_NUM_THREADS = 1", r"^run\.env\.OMP_NUM_THREADS: must be text, got 1"),
        ('deadline_s = "1.3x"', "", r"^objective: must set exactly one of deadline_s and budget_usd, got none"),
        ('name = "digits"', "name = 3", r"^name: must be text, got 3"),
        ('name = "digits"', "made = 2026-01-01", r"^made: must be text, a number, a list or an object, got a date"),
        ("[train]", "[train", r"e\.toml: is not valid TOML: .*\(at line 3, column 7\)"),
        ("seed = 0", "seed = 0\nseed = 1", r"e\.toml: is not valid TOML: .*\(at line 8, column 9\)"),
    ],
)
def test_what_is_wrong_is_named(load, old, new, message):
    assert old in FILE
    text = FILE.replace(old, new, 1)
    if message is None:
        assert load(text).metric == "score"
        return
    with pytest.raises(InvalidInput, match=message):
        load(text)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            "3",
            r"^profile: must be the path of a profile file, .* such as {slots = \[1, 2\], budget_s = \"60s\"}; got 3",
        ),
        ("{iteration_s = 3.0}", r"^profile\.iteration_s: must be an object with .*, such as {1 = 10\.0, .*, got 3\.0"),
        ("{iteration_s = {1 = 3.0}, slots = [1]}", r"^profile\.slots: .*; write .* such as {iteration_s = {1 = 10\.0"),
    ],
)
def test_a_profile_of_no_form_is_told_the_forms_that_there_are(load, profile, message):
    with pytest.raises(InvalidInput, match=message):
        load(f"profile = {profile}\n" + FILE.replace('[profile]\nslots = [1, 2]\nbudget_s = "30s"\n', ""))


@pytest.mark.parametrize(
    ("written", "early_release"),
    [
        ("", True),
        ("[policies]", True),
        ("[policies]\nearly_release = false", False),
        ("[policies]\nprefetch = false", True),
    ],
)
def test_a_run_releases_early_unless_the_file_says_otherwise(load, written, early_release):
    assert load(FILE + written).policies == Policies(early_release=early_release)


def test_a_policy_that_is_not_built_is_refused_by_its_path(load):
    with pytest.raises(InvalidInput, match=r"^policies.prefetch: is not supported, since"):
        load(FILE + "[policies]\nprefetch = true")
