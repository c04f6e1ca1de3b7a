from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from scipy.stats import uniform

from rb_core.errors import BudgetExceeded, InvalidInput, PlanVeto
from rb_core.events import RunEnded, StageEnded
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import Objective, Policies
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_plugins import Session, hookimpl, make_manager
from rb_plugins.cli import main
from rb_plugins.config.profile import read_profile
from rb_plugins.tuning import Measuring

PROFILE = ScalingProfile(iteration_s={1: Latency(mean=0.01)}, start_s=Latency(mean=0.1))
CLOUD = Cloud(
    instance_types=(InstanceType(name="core", slots=1, usd_per_hour=0.17),), max_nodes=1, billing=Billing(minimum_s=0)
)
SPEC = ExperimentSpec.from_stages([(3, 2), (1, 2)])
RELAXED = Objective(deadline_s=3600.0)


def plugin(**functions: object) -> SimpleNamespace:
    return SimpleNamespace(**{name: hookimpl(function) for name, function in functions.items()})


@pytest.fixture
def session(tmp_path):
    def session(*plugins: object) -> Session:
        return Session(manager=make_manager(autoload=False, plugins=plugins), directory=tmp_path / "home")

    return session


@pytest.fixture
def train():
    """A training function that no other process can import, so that it is sent by value."""

    def train(config, trial):
        trial.load()
        for _ in trial.iterations():
            trial.report(config["x"])
            if trial.save_due:
                with trial.save() as folder:
                    (folder / "state").write_text("kept")

    return train


def tune(session: Session, train: object, **options: object):
    return session.tune(
        train, {"x": uniform(0, 1)}, SPEC, CLOUD, RELAXED,
        **{"launcher": "process", "profile": PROFILE, **options},
    )  # fmt: skip


def test_tune_goes_from_a_function_to_its_best_configuration(session, train):
    outcome = tune(session(), train, metric="accuracy", name="From Python!")
    scores = {trial.trial: trial.score for trial in outcome.state.trials.values()}
    assert outcome.best.trial == max(scores, key=scores.get)
    assert outcome.best.config == {"x": outcome.best.score}
    assert outcome.best.iterations == 4
    assert outcome.best.checkpoint.exists()
    assert (outcome.ending, outcome.missed) == ("done", "")
    assert outcome.directory.run.startswith("from-python-")
    assert session().report().table() == outcome.table()


@pytest.mark.parametrize(("given", "early_release"), [({}, True), ({"policies": Policies()}, False)])
def test_nodes_go_before_the_barrier_unless_told_otherwise(session, train, given, early_release):
    outcome = tune(session(), train, **given)
    problem = json.loads((outcome.directory.path / "problem.json").read_text())
    assert problem["policies"]["early_release"] is early_release
    events = [json.loads(line)["event"] for line in (outcome.directory.path / "events.jsonl").read_text().splitlines()]
    last = [event for event in events if event in ("NodeReleased", "StageEnded")][-2:]
    assert last == (["NodeReleased", "StageEnded"] if early_release else ["StageEnded", "NodeReleased"])


def test_the_mode_min_looks_for_the_least(session, train):
    outcome = tune(session(), train, mode="min")
    assert outcome.best.score == min(trial.score for trial in outcome.state.trials.values())


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_promotion_is_told_larger_is_better_whatever_the_mode(session, train, mode):
    seen = {}

    def rubberband_promote(spec, stage, scores):
        seen.update(scores)
        return [min(scores, key=scores.get)]

    outcome = tune(session(plugin(rubberband_promote=rubberband_promote)), train, mode=mode)
    sign = 1 if mode == "max" else -1
    assert seen == {trial.trial: sign * trial.score for trial in outcome.state.trials.values()}
    (survivor,) = outcome.state.stages[0].survivors
    assert survivor == min(seen, key=seen.get)


def test_observers_are_told_of_every_event_and_a_broken_one_is_reported_in_the_run(session, train):
    seen = []

    def broken(event):
        raise ValueError("boom")

    listens = plugin(rubberband_event=lambda event: seen.append(type(event)))
    outcome = tune(session(listens, plugin(rubberband_event=broken)), train)
    assert seen.count(StageEnded) == 2
    assert seen.count(RunEnded) == 1
    assert outcome.ending == "done"
    assert [text for text in outcome.state.warnings if "boom" in text] == [
        "observer rubberband_event of plugin SimpleNamespace-1 raised ValueError: boom; the run goes on"
    ]


def test_a_plugins_profile_takes_the_place_of_a_measurement(session, train):
    asked = []

    def rubberband_profile(spec, instance):
        asked.append((spec, instance.name))
        return PROFILE

    outcome = tune(session(plugin(rubberband_profile=rubberband_profile)), train, profile=Measuring())
    assert asked == [(SPEC, "core")]
    assert outcome.problem.profile == PROFILE
    assert outcome.profiling_s == 0.0


def test_a_veto_stops_the_run_before_anything_is_made(session, train, tmp_path):
    with pytest.raises(PlanVeto, match="not on a Friday"):
        tune(session(plugin(rubberband_veto=lambda spec, plan, estimate: "not on a Friday")), train)
    assert not (tmp_path / "home").exists()


def test_a_plan_above_max_usd_is_not_begun(session, train, tmp_path):
    with pytest.raises(BudgetExceeded):
        tune(session(), train, max_usd=1e-9)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"launcher": "srun"}, r"^run\.launcher: must be the name of a launcher"),
        ({"planner": "best"}, r"^planner: must be the name of a planner"),
        ({"metric": ""}, r"^train\.metric: must be a non-empty string"),
        ({"mode": "best"}, r"^train\.mode: must be one of max, min"),
        ({"seed": -1}, r"^train\.seed: must be an integer of at least 0"),
        ({"sampling": "grid"}, r"^run\.sampling: must be one of random, sobol"),
    ],
)
def test_bad_options_are_named(session, train, options, message):
    with pytest.raises(InvalidInput, match=message):
        tune(session(), train, **options)


def test_equal_seeds_give_equal_configurations(session, train):
    first = tune(session(), train, seed=5)
    again = tune(session(), train, seed=5, sampling="random")
    other = tune(session(), train, seed=5, sampling="sobol")
    configs = [[trial.config for trial in outcome.state.trials.values()] for outcome in (first, again, other)]
    assert configs[0] == configs[1] != configs[2]


def test_a_measured_profile_is_written_and_reads_back(experiment, tmp_path):
    target = f"{tmp_path / 'train_small.py'}:train"
    output = tmp_path / "profile.json"
    result = CliRunner().invoke(
        main,
        ["profile", target, "--slots", "1", "--budget", "2m", "--launcher", "process", "-o", str(output), "--json",
         "--config", '{"lr": 0.25}', "--config", '{"lr": 0.5}'],
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    table = json.loads(output.read_text())
    assert table == json.loads(result.stdout)
    assert table["target"] == target
    assert {start["slots"] for start in table["measurements"]} == {1}
    assert {start["config"]["lr"] for start in table["measurements"]} == {0.25, 0.5}
    profile = read_profile("profile.json", folder=tmp_path)
    assert profile.slots == (1,)
    assert profile.iteration_s[1].mean == table["iteration_s"]["1"]["mean"] > 0


def test_a_run_measures_what_it_does_not_know(session, train):
    outcome = tune(session(), train, profile=Measuring(slots=(1,), budget_s=120.0))
    assert outcome.profiling_s > 0
    assert outcome.directory.read("profile.json")["measurements"]
    assert outcome.problem.profile.slots == (1,)
