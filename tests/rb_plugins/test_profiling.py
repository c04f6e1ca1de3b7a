"""Profiling on nodes of several types, from the command to the plan that uses it."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from scipy.stats import uniform

from rb_core.clock import ManualClock
from rb_core.errors import BudgetExceeded, InvalidInput
from rb_core.eventlog import read_log
from rb_core.events import RunEnded, RunStarted
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import Objective
from rb_core.providers.local import LocalProvider
from rb_core.spec import ExperimentSpec
from rb_core.target import Target
from rb_core.testing.fakes import FakeLauncher, FakeProvider, FakeTraining
from rb_plugins import Session, hookimpl, make_manager
from rb_plugins.asked import Place, asked_to_profile
from rb_plugins.cli import main
from rb_plugins.config.problem import load_problem
from rb_plugins.profiling import ProfileRequest, benches
from rb_plugins.tuning import Measuring, Tuning

TYPES = (
    InstanceType(name="a", slots=2, usd_per_hour=3.6),
    InstanceType(name="b", slots=2, usd_per_hour=7.2),
    InstanceType(name="c", slots=2, usd_per_hour=7.2, speed=3.0),
)
CLOUD = Cloud(
    instance_types=TYPES, max_nodes=4, launch_s=Latency(mean=30), init_s=Latency(mean=60), provider="fake",
    billing=Billing(minimum_s=0),
)  # fmt: skip
SPEC = ExperimentSpec.from_stages([(4, 2), (1, 2)])
SECONDS = {"a": 8.0, "b": 4.0}


@pytest.fixture
def session(tmp_path):
    """A session on a manual clock whose provider and launcher are fakes; `a` is half as fast as `b`."""
    clock = ManualClock()
    made = []

    def provider(*, cloud, clock, inbox):
        fake = FakeProvider(clock, inbox, launch_s=30.0, init_s=60.0)
        made.append(fake)
        return fake

    def launcher(*, target, clock):
        def iteration_s(run):
            books = {name: node for fake in made for name, node in fake.books.items()}
            return SECONDS[books[run.slots[0].node].instance_type.name] / len(run.slots)

        return FakeLauncher(clock, FakeTraining(iteration_s=iteration_s, every_iteration=True))

    @hookimpl
    def providers():
        return {"fake": provider}

    @hookimpl
    def launchers():
        return {"fake": launcher}

    plugin = SimpleNamespace(rubberband_register_providers=providers, rubberband_register_launchers=launchers)
    session = Session(
        manager=make_manager(autoload=False, plugins=[plugin]), directory=tmp_path / "home", clock=clock
    )  # fmt: skip
    session.made = made
    return session


def tuning(**options):
    given = {
        "target": Target(name="f", function="f", module="m"), "space": {"x": uniform(0, 1)}, "experiment": SPEC,
        "cloud": CLOUD, "objective": Objective(deadline_s=36000.0), "launcher": "fake", "name": "small",
    }  # fmt: skip
    return Tuning(**{**given, **options})


def profiled(session, asked):
    with session.launcher("fake", asked.target) as launcher:
        return session.profile(asked, launcher)


def home_of(session):
    (path,) = (session.directory / "runs").iterdir()
    return path


def test_a_run_measures_each_type_whose_speed_was_not_given_and_plans_with_it(session):
    measured = profiled(session, tuning())
    assert measured.instance_type == "a"
    assert {name: speed.mean for name, speed in measured.speeds.items()} == {"b": pytest.approx(2.0)}
    problem = session.problem(tuning(), measured)
    assert [found.speed for found in problem.cloud.instance_types] == pytest.approx([1.0, 2.0, 3.0])
    assert any("the speed of b is 2" in note for note in session.notes)


def test_the_first_type_alone_is_measured_when_asked_for(session):
    measured = profiled(session, tuning(profile=Measuring(types="first")))
    assert measured.speeds == {}
    assert session.problem(tuning(), measured).cloud == CLOUD
    assert any("the speed of b is not known" in note for note in session.notes)


def test_it_leaves_a_directory_with_a_closed_log_its_cost_and_the_profile(session):
    measured = profiled(session, tuning())
    home = home_of(session)
    events = read_log(home / "events.jsonl").events
    assert home.name.startswith("profile-small-")
    assert isinstance(events[0], RunStarted)
    assert events[0].problem["cloud"]["provider"] == "fake"
    assert isinstance(events[-1], RunEnded)
    assert not (home / "lease.json").exists()
    books = [node for fake in session.made for node in fake.books.values()]
    assert all(node.name.startswith(f"{home.name}-") and node.released_s is not None for node in books)
    table = json.loads((home / "profile.json").read_text())
    assert table["usd"] == measured.usd > 0
    assert (table["instance_type"], table["provider"]) == ("a", "fake")
    assert table["speeds"]["b"]["mean"] == pytest.approx(2.0)
    assert table["speeds"]["b"]["measurements"]


def test_a_killed_one_is_there_to_be_collected(session, monkeypatch):
    asked = session.to_measure(tuning())

    class Killed(BaseException):
        pass

    def die(*names, **values):
        raise Killed

    with session.launcher("fake", asked.target) as launcher:
        monkeypatch.setattr(launcher, "start", die)
        monkeypatch.setattr("rb_core.cluster.Cluster.__exit__", die)
        monkeypatch.setattr("rb_core.journal.Journal.attempt", die)
        with pytest.raises(Killed):
            session.measure(asked, launcher)
    (fake,) = session.made
    surveyed = session.surveyed(home_of(session).name)
    assert list(surveyed.state.held) == list(fake.books)
    assert surveyed.ending == "unfinished"
    assert surveyed.bill.cost_usd > 0 or surveyed.state.t_s == 90.0
    assert any("were not given back" in line for line in surveyed.lines())


def test_the_limit_of_the_run_covers_its_profiling(session):
    with pytest.raises(BudgetExceeded):
        profiled(session, tuning(max_usd=0.05))
    (fake,) = session.made
    assert fake.owned(home_of(session).name) == ()


def test_what_profiling_cost_is_shown_with_the_run_and_counts_against_its_limit(session):
    asked = tuning(max_usd=5.0)
    measured = profiled(session, asked)
    planned = session.plan(session.problem(asked, measured), samples=10)
    with pytest.raises(BudgetExceeded, match="the plan could bring the bill to"):
        session.veto(planned, max_usd=planned.expected[1] + measured.usd / 2, spent_usd=measured.usd)
    directory = session.create(asked, planned, measured)
    with session.launcher("fake", asked.target) as launcher:
        outcome = session.run(asked, planned, launcher, directory=directory)
    assert outcome.table()["actual"]["profiling_usd"] == measured.usd
    assert outcome.profiling_usd == directory.profiling_usd == measured.usd


def test_the_starts_of_both_profiling_and_run_are_remembered(session):
    asked = tuning(cloud=CLOUD)
    measured = profiled(session, asked)
    planned = session.plan(session.problem(asked, measured), samples=10)
    directory = session.create(asked, planned, measured)
    with session.launcher("fake", asked.target) as launcher:
        session.run(asked, planned, launcher, directory=directory)
    pools = json.loads((session.directory / "latencies.json").read_text())["pools"]
    starts = [start for pool in pools for start in pool["starts"]]
    assert {start["run"] for start in starts} == {directory.run, next(iter(session.made[0].books)).rsplit("-", 1)[0]}
    assert {start["launch_s"] for start in starts} == {30.0}
    assert {start["init_s"] for start in starts} == {60.0}


def test_a_profile_file_gives_its_speeds_to_the_problem_that_names_it(session, tmp_path):
    profiled(session, tuning())
    (tmp_path / "profile.json").write_text((home_of(session) / "profile.json").read_text())
    types = [{"name": name, "slots": 2, "usd_per_hour": 1.0} for name in "ab"]
    problem = {"experiment": {"stages": [{"trials": 2, "iterations": 1}]}, "profile": "profile.json",
               "cloud": {"instance_types": types}}  # fmt: skip
    path = tmp_path / "p.json"
    path.write_text(json.dumps(problem))
    assert [found.speed for found in session.load_problem(path).cloud.instance_types] == pytest.approx([1.0, 2.0])
    types[1]["speed"] = 1.0
    path.write_text(json.dumps(problem))
    assert [found.speed for found in load_problem(path, price_books=None).cloud.instance_types] == [1.0, 1.0]
    session.load_problem(path)
    assert any(note.startswith("the speed of b is 1, as the file has it") for note in session.notes)


# What is measured on what


def request(cloud, *, slots=(), others=("b",)):
    return ProfileRequest(
        target=Target(name="f", function="f", module="m"), launcher="fake", cloud=cloud, configs=({},),
        measuring=Measuring(slots=slots), others=others,
    )  # fmt: skip


def cloud(slots_a, slots_b, *, provider="fake", max_nodes=4):
    types = (
        InstanceType(name="a", slots=slots_a, usd_per_hour=1),
        InstanceType(name="b", slots=slots_b, usd_per_hour=1),
    )
    return Cloud(instance_types=types, max_nodes=max_nodes, provider=provider)


@pytest.mark.parametrize(
    ("where", "slots", "wanted"),
    [
        (cloud(4, 8), (), [(1, (1, 2, 4)), (1, (1, 2, 4))]),
        (cloud(4, 1), (), [(1, (1, 2, 4)), (1, (1,))]),
        (cloud(4, 2), (4,), [(1, (4,)), (2, (4,))]),
        (cloud(2, 2), (4,), [(2, (4,)), (2, (4,))]),
        (cloud(1, 1, provider="local", max_nodes=2), (), [(2, (1, 2)), (2, (1, 2))]),
    ],
)
def test_others_are_measured_on_what_they_can_hold_of_the_firsts_sizes(where, slots, wanted):
    assert [(bench.nodes, bench.sizes) for bench in benches(request(where, slots=slots))] == wanted


def test_a_type_that_shares_no_size_is_refused_with_its_remedy():
    with pytest.raises(InvalidInput, match=r"profile\.slots: must hold a number that b can be compared on"):
        benches(request(cloud(4, 3), slots=(4,)))


def test_types_of_this_machine_are_measured_one_after_another(session, monkeypatch):
    here = cloud(1, 1, provider="local", max_nodes=1)
    monkeypatch.setitem(SECONDS, "b", 2.0)
    monkeypatch.setattr("rb_core.providers.local.devices", lambda: ("",))
    launched, launch = [], LocalProvider.launch

    def noted(self, names, instance_type, *, run):
        launched.append(instance_type.name)
        session.made.append(
            SimpleNamespace(books={name: SimpleNamespace(instance_type=instance_type) for name in names})
        )
        launch(self, names, instance_type, run=run)

    monkeypatch.setattr(LocalProvider, "launch", noted)
    assert profiled(session, tuning(cloud=here)).speeds["b"].mean == pytest.approx(4.0)
    assert launched == ["a", "b"]
    assert not (session.directory / "latencies.json").exists()


# The command


def asked(session, target="m:f", **place):
    return asked_to_profile(
        session, target, slots="", budget=None, configs=(), launcher=None, place=Place(**place), max_usd=2.0
    )  # fmt: skip


def test_a_bare_function_is_measured_on_types_of_a_catalogue(session):
    found = asked(session, provider="ec2", region="us-east-1", instance_types="g5.xlarge, g4dn.xlarge")
    assert [kind.name for kind in found.cloud.instance_types] == ["g5.xlarge", "g4dn.xlarge"]
    assert (found.cloud.provider, found.cloud.region, found.launcher) == ("ec2", "us-east-1", "ray")
    assert (found.others, found.max_usd) == (("g4dn.xlarge",), 2.0)


def test_a_cloud_file_says_the_rest(session, tmp_path):
    path = tmp_path / "cloud.json"
    types = [{"name": "a", "slots": 2, "usd_per_hour": 1}, {"name": "b", "slots": 2, "usd_per_hour": 1, "speed": 2}]
    path.write_text(json.dumps({"provider": "fake", "instance_types": types, "max_nodes": 2}))
    assert asked(session, file=path).others == ()
    assert [kind.name for kind in asked(session, file=path, instance_types="b,a").cloud.instance_types] == ["b", "a"]


HERE = {"provider": "ec2", "region": "us-west-2"}
ONE = {**HERE, "instance_types": "g5.xlarge"}


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"provider": "ec2", "instance_types": "g5.xlarge"}, "--region: is required"),
        (HERE, "--instance-types: is required"),
        ({**HERE, "instance_types": "q9.huge"}, "--instance-types: 'q9.huge' is not in"),
        ({**HERE, "instance_types": ","}, "--instance-types: must be names"),
        ({**ONE, "market": "x"}, "--market: must be one"),
        ({**ONE, "catalog": "x"}, "--catalog: must be"),
    ],
)
def test_options_that_do_not_fit_are_named(session, place, message):
    with pytest.raises(InvalidInput) as caught:
        asked(session, **place)
    assert str(caught.value).startswith(message)


def test_an_experiment_file_says_where_and_options_choose_among_its_types(experiment, session):
    assert [kind.name for kind in asked(session, str(experiment), instance_types="core").cloud.instance_types] == [
        "core"
    ]
    with pytest.raises(InvalidInput, match="--instance-types: must be one of the cloud's types"):
        asked(session, str(experiment), instance_types="x")
    with pytest.raises(InvalidInput, match="--provider: must be left out"):
        asked(session, str(experiment), provider="ec2")


def test_money_is_not_spent_without_being_agreed_to(experiment, monkeypatch):
    options = ["--provider", "ec2", "--region", "us-west-2", "--instance-types", "g5.xlarge"]
    done = CliRunner().invoke(main, ["profile", f"{experiment.parent / 'train_small.py'}:train", *options])
    assert done.exit_code == 2
    assert "--yes: is required where nobody can be asked" in done.stderr


def test_the_spread_between_runs_is_told_with_what_was_assumed_of_it(experiment):
    target = f"{experiment.parent / 'train_small.py'}:train"
    arguments = ["--slots", "1", "--budget", "20s", "--config", '{"lr": 0.5}', "--launcher", "process"]
    done = CliRunner().invoke(main, ["profile", target, *arguments])
    assert done.exit_code == 0, done.stderr
    title, *_ = done.stdout.splitlines()
    assert re.search(r" and by \d+\.\d% \(5\.0% assumed, \d+\.\d% measured\) between runs$", title)


def test_a_profiling_is_reported_on_by_the_command(experiment, monkeypatch):
    target = f"{experiment.parent / 'train_small.py'}:train"
    arguments = ["--slots", "1", "--budget", "20s", "--config", '{"lr": 0.5}', "--launcher", "process", "--json"]
    done = CliRunner().invoke(main, ["profile", target, *arguments])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["instance_type"] == "machine"
    told = json.loads(CliRunner().invoke(main, ["report", "--json"]).stdout)
    assert (told["kind"], told["state"], told["held"]) == ("profiling", "done", [])
    shown = CliRunner().invoke(main, ["report"])
    assert "Profiling of" in shown.stdout
    stopped = json.loads(CliRunner().invoke(main, ["stop", "--json"]).stdout)
    assert (stopped["stopped"], stopped["state"]) == (False, "done")
