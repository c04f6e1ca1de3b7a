from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rb_core.errors import InvalidInput, RubberBandError
from rb_core.hardware import BillingMode, Latency, Market, MarketPolicy, PriceDate
from rb_core.plan import Policies, Problem
from rb_plugins.config.cloud import read_cloud
from rb_plugins.config.problem import fingerprint, load_problem, problem_table, read_problem
from rb_plugins.ec2_prices import price_book
from rb_plugins.forecast import forecast
from rb_plugins.manager import make_manager

MINIMAL = {
    "experiment": {"stages": [{"trials": 4, "iterations": 10}, {"trials": 2, "iterations": 20}]},
    "profile": {"iteration_s": {"1": {"mean": 10.0}, "2": {"mean": 6.0, "std": 0.5}}},
    "cloud": {"instance_types": [{"name": "a", "slots": 2, "usd_per_hour": 3.6}]},
}

FULL = {
    "schema": 1,
    "experiment": {"stages": [{"trials": 64, "iterations": 4}, {"trials": 32, "iterations": 8}]},
    "profile": {
        "iteration_s": {"1": {"mean": 60.0, "std": 3.0}, "2": {"mean": 32.3, "std": 1.6}},
        "start_s": {"mean": 5.0, "std": 0.5},
        "save_s": {"mean": 1.0, "std": 0.0},
        "sync_s": 5.0,
        "trial_cv": 0.05,
        "spread_penalty": 0.15,
        "checkpoint_gib": 0.2,
    },
    "cloud": {
        "instance_types": [{"name": "p3.8xlarge", "slots": 4, "usd_per_hour": 12.24, "speed": 1.0}],
        "max_nodes": 64,
        "launch_s": {"mean": 30.0, "std": 5.0},
        "init_s": {"mean": 60.0, "std": 10.0},
        "billing": {"mode": "per_instance", "granularity_s": 1, "minimum_s": 60},
        "dataset_gib": 0.0,
        "transfer_usd_per_gib": 0.0,
    },
    "objective": {"deadline_s": 3600, "confidence": 0.95},
    "policies": {"early_release": False, "prefetch": False, "early_promotion": False},
}

TOML = """
[experiment]
successive_halving = {n = 4, r = 10, R = 30, eta = 2}
[profile]
iteration_s = {1 = 10, 2 = {mean = 6.0, std = 0.5}}
[cloud]
instance_types = [{name = "a", slots = 2, usd_per_hour = 3.6}]
[objective]
deadline_s = "1h30m"
"""


def books(name: str, /, *, region: str, instance_types: object):
    if name != "ec2":
        raise InvalidInput("catalog", f"must be ec2, got {name!r}")
    return price_book()


def read(data: object, folder: Path = Path()) -> Problem:
    return read_problem(data, folder=folder, price_books=books)


def changed(path: str, value: object, base: dict = FULL) -> dict:
    data = copy.deepcopy(base)
    *parents, last = [int(part) if part.isdigit() and "iteration_s" not in path else part for part in path.split("/")]
    place = data
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return data


def test_defaults_are_filled_in():
    problem = read(MINIMAL)
    assert [(s.trials, s.iterations) for s in problem.experiment.chains[0]] == [(4, 10), (2, 20)]
    assert problem.profile.iteration_s == {1: Latency(mean=10.0), 2: Latency(mean=6.0, std=0.5)}
    assert problem.profile.start_s == problem.cloud.launch_s == Latency(mean=0.0)
    assert problem.cloud.max_nodes == 64
    assert (problem.cloud.billing.granularity_s, problem.cloud.billing.minimum_s) == (1.0, 60.0)
    assert problem.cloud.instance_types[0].speed == 1.0
    assert problem.objective is None


def test_every_value_of_a_full_file_arrives():
    problem = read(FULL)
    assert problem.profile.trial_cv == 0.05
    assert problem.profile.spread_penalty == 0.15
    assert problem.profile.checkpoint_gib == 0.2
    assert problem.cloud.init_s == Latency(mean=60.0, std=10.0)
    assert problem.cloud.billing.mode is BillingMode.PER_INSTANCE
    assert problem.objective.deadline_s == 3600
    assert problem.objective.confidence == 0.95


def test_toml_and_json_carry_the_same_schema(tmp_path):
    (tmp_path / "p.toml").write_text(TOML)
    problem = load_problem(tmp_path / "p.toml", price_books=books, objective=True)
    same = {
        **MINIMAL,
        "experiment": {"stages": [{"trials": 4, "iterations": 10}, {"trials": 2, "iterations": 10},
                                  {"trials": 1, "iterations": 10}]},
        "objective": {"deadline_s": 5400.0},
    }  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps(same))
    assert load_problem(tmp_path / "p.json", price_books=books) == problem


def test_hyperband_makes_chains_and_its_canonical_form_reads_back():
    problem = read({**MINIMAL, "experiment": {"hyperband": {"R": 81, "eta": 3}}})
    assert [chain[0].trials for chain in problem.experiment.chains] == [81, 34, 15, 8, 5]
    assert read(problem_table(problem)) == problem


@pytest.mark.parametrize(
    ("deadline", "seconds"), [(90, 90.0), ("90s", 90.0), ("45m", 2700.0), ("2h", 7200.0), ("1h30m", 5400.0)]
)
def test_deadlines_in_seconds_and_in_words(deadline, seconds):
    assert read(changed("objective/deadline_s", deadline)).objective.deadline_s == seconds


def test_a_deadline_in_multiples_of_the_fastest_plan():
    objective = read(changed("objective/deadline_s", "1.5x")).objective
    assert (objective.deadline_s, objective.deadline_factor) == (None, 1.5)


def test_a_latency_may_be_a_plain_number_and_a_duration_words():
    problem = read(changed("cloud/launch_s", 30, changed("profile/sync_s", "1m30s")))
    assert problem.cloud.launch_s == Latency(mean=30.0)
    assert problem.profile.sync_s == 90.0
    assert read(changed("cloud/billing/minimum_s", "1m")).cloud.billing.minimum_s == 60.0


def test_profile_and_cloud_may_be_files_beside_the_problem(tmp_path):
    measured = {**FULL["profile"], "schema": 1, "target": "t.py:f", "made": "2026-01-01T00:00:00Z",
                "measurements": [{"w": 1, "note": None}], "fit": {"a": 1}}  # fmt: skip
    (tmp_path / "profile.json").write_text(json.dumps(measured))
    (tmp_path / "cloud.json").write_text(json.dumps(FULL["cloud"]))
    (tmp_path / "p.json").write_text(json.dumps({**FULL, "profile": "profile.json", "cloud": "cloud.json"}))
    assert load_problem(tmp_path / "p.json", price_books=books) == read(FULL)


def test_an_error_in_a_file_beside_the_problem_names_that_file(tmp_path):
    (tmp_path / "profile.json").write_text('{"iteration_s": {"1": -1}}')
    (tmp_path / "p.json").write_text(json.dumps({**FULL, "profile": "profile.json"}))
    with pytest.raises(InvalidInput) as caught:
        load_problem(tmp_path / "p.json", price_books=books)
    assert caught.value.key == "iteration_s.1.mean"
    assert any("profile.json" in note for note in caught.value.__notes__)


def test_a_catalogue_gives_prices_slots_latencies_and_the_billing_rule():
    cloud = read(
        {**MINIMAL, "cloud": {"catalog": "ec2", "region": "us-west-2", "market": "spot", "max_nodes": 8,
                              "instance_types": ["p3.8xlarge", {"name": "g5.xlarge", "speed": 0.6}]}}
    ).cloud  # fmt: skip
    assert [(t.name, t.slots, t.usd_per_hour, t.speed, t.market) for t in cloud.instance_types] == [
        ("p3.8xlarge", 4, 3.0794, 1.0, Market.SPOT),
        ("g5.xlarge", 1, 0.5134, 0.6, Market.SPOT),
    ]
    assert cloud.provider == "ec2"
    assert cloud.init_s == price_book().init_s
    assert cloud.max_nodes == 8


def catalogue(**cloud):
    reference = {"catalog": "ec2", "region": "us-west-2", "instance_types": ["g5.xlarge"], **cloud}
    return read({**MINIMAL, "cloud": reference}).cloud


def test_a_cloud_keeps_where_its_prices_came_from_and_a_plan_does_not_depend_on_their_date():
    cloud = catalogue()
    assert cloud.prices == PriceDate(book="ec2", dated="2026-07-20")
    problem = replace(read(FULL), cloud=cloud)
    later = replace(problem, cloud=replace(cloud, prices=PriceDate(book="aws", dated="2026-12-02")))
    assert problem_table(problem)["cloud"]["prices"] == {"book": "ec2", "dated": "2026-07-20"}
    assert read(problem_table(problem)) == problem
    assert fingerprint(later) == fingerprint(problem)


def test_a_node_costs_its_machine_its_disk_and_its_address_where_settings_say_what_it_has():
    (bare,) = catalogue().instance_types
    assert (bare.usd_per_hour, bare.disk_usd_per_hour, bare.address_usd_per_hour) == (1.006, 0.0, 0.0)
    (private,) = catalogue(settings={"volume_gib": 450, "public_ip": False}).instance_types
    assert private.disk_usd_per_hour == pytest.approx(450 * 0.08 / 720) == pytest.approx(0.05)
    assert private.usd_per_hour == pytest.approx(1.056)
    (usual,) = catalogue(settings={"owner": "me"}).instance_types
    assert usual.disk_usd_per_hour == pytest.approx(100 * 0.08 / 720)
    assert usual.address_usd_per_hour == 0.005
    assert usual.usd_per_hour == pytest.approx(1.006 + 100 * 0.08 / 720 + 0.005)
    (elsewhere,) = catalogue(settings={"volume_gib": 450}, provider="mine").instance_types
    assert elsewhere.usd_per_hour == 1.006


def test_what_is_rented_is_priced_whole_whether_or_not_settings_say_so():
    reference = {"catalog": "ec2", "region": "us-west-2", "instance_types": ["g5.xlarge"]}
    cloud = read_cloud(reference, folder=Path(), price_books=books, rented=True)
    assert cloud.instance_types[0].usd_per_hour == pytest.approx(1.006 + 100 * 0.08 / 720 + 0.005)


@pytest.mark.parametrize(
    ("given", "market", "rate", "on_demand"),
    [
        ({}, Market.ON_DEMAND, 0.0, None),
        ({"market": "spot"}, Market.SPOT, 0.1, None),
        ({"market": "spot", "interruptions_per_hour": 0.6}, Market.SPOT, 0.6, None),
        ({"market": "spot_then_on_demand"}, Market.SPOT, 0.1, 1.006),
        ({"market": "spot", "instance_types": [{"name": "g5.xlarge", "interruptions_per_hour": 1.3}]},
         Market.SPOT, 1.3, None),
    ],
)  # fmt: skip
def test_a_policy_says_where_a_type_is_bought_first(given, market, rate, on_demand):
    cloud = catalogue(**given)
    (found,) = cloud.instance_types
    assert (found.market, found.interruptions_per_hour, found.on_demand_usd_per_hour) == (market, rate, on_demand)
    assert found.usd_per_hour == (1.006 if market is Market.ON_DEMAND else 0.5134)
    assert cloud.market == given.get("market", "on_demand")
    problem = replace(read(MINIMAL), cloud=cloud)
    assert read(problem_table(problem)) == problem


def test_on_demand_after_spot_costs_its_disk_and_address_too():
    (found,) = catalogue(market="spot_then_on_demand", settings={"volume_gib": 450}).instance_types
    assert found.on_demand_usd_per_hour == pytest.approx(1.006 + 0.05 + 0.005)
    assert found.on_demand().disk_usd_per_hour == found.disk_usd_per_hour == pytest.approx(0.05)


def priced(policy, **type_):
    cloud = {"instance_types": [{"name": "a", "slots": 1, "usd_per_hour": 0.3, **type_}], "market": policy}
    return read({**MINIMAL, "cloud": {name: value for name, value in cloud.items() if value is not None}})


@pytest.mark.parametrize(
    "problem",
    [
        priced("spot"),
        priced("spot", interruptions_per_hour=0.0),
        priced("spot_then_on_demand", on_demand_usd_per_hour=1.0, disk_usd_per_hour=0.1),
        priced("spot_then_on_demand", market="on_demand"),
        priced(None, market="spot"),
        priced("on_demand", market="spot"),
    ],
)
def test_types_that_the_file_prices_are_bought_by_the_same_keys_and_read_back(problem):
    assert read(problem_table(problem)) == problem


def test_types_that_the_file_prices_follow_the_policy_unless_they_say_otherwise():
    assert priced("spot").cloud.instance_types[0].market is Market.SPOT
    assert priced("spot").cloud.instance_types[0].interruptions_per_hour == 0.1
    assert priced("spot", interruptions_per_hour=0.0).cloud.instance_types[0].interruptions_per_hour == 0.0
    assert priced(None, market="spot").cloud.market is MarketPolicy.SPOT
    assert priced(None).cloud.market is MarketPolicy.ON_DEMAND
    message = r"^cloud\.instance_types\[0\]\.on_demand_usd_per_hour: is required where market is 'spot_then_on_demand'"
    with pytest.raises(InvalidInput, match=message):
        priced("spot_then_on_demand")


def test_cpus_per_slot_divides_cpu_types_and_leaves_gpus_alone():
    cloud = {"catalog": "ec2", "region": "us-east-1", "instance_types": ["c5.4xlarge", "g5.12xlarge"],
             "cpus_per_slot": 4, "provider": "local"}  # fmt: skip
    read_back = read({**MINIMAL, "cloud": cloud}).cloud
    assert [t.slots for t in read_back.instance_types] == [4, 4]
    assert read_back.provider == "local"


@pytest.mark.parametrize(
    ("cloud", "message"),
    [
        ({"catalog": "gcp"}, r"^cloud\.catalog: must be ec2, got 'gcp'"),
        ({"instance_types": ["p3.8xlarge", "p9"]}, r"^cloud\.instance_types\[1\]: 'p9' is not in the ec2 price book"),
        ({"region": "eu-west-1"}, r"^cloud\.instance_types\[0\]: .*no on_demand price in 'eu-west-1'"),
        (
            {"market": "auction"},
            r"^cloud\.market: must be one of 'on_demand', 'spot' or 'spot_then_on_demand', got",
        ),
        ({"market": "spot", "instance_types": ["p3.2xlarge"]}, r"^cloud\.instance_types\[0\]: .*no spot price in"),
        ({"settings": {"volume_gib": -1}}, r"^cloud\.settings\.volume_gib: must be a finite number of at least 0"),
        ({"settings": {"zones": "us-west-2a"}}, r"^cloud\.settings\.zones: must be a list of names of zones"),
        ({"interruptions_per_hour": -1}, r"^cloud\.interruptions_per_hour: must be a finite number of at least 0"),
        ({"instance_types": [{"name": "p3.8xlarge", "slots": 9}]}, r"^cloud\.instance_types\[0\]\.slots: is not a"),
        ({"instance_types": ["c5.large"], "cpus_per_slot": 4}, r"^cloud\.instance_types\[0\]: must be a positive int"),
    ],
)
def test_a_catalogue_reference_that_is_wrong(cloud, message):
    reference = {"catalog": "ec2", "region": "us-west-2", "instance_types": ["p3.8xlarge"], **cloud}
    if cloud.get("cpus_per_slot"):
        reference["region"] = "us-east-1"
    with pytest.raises(InvalidInput, match=message):
        read({**MINIMAL, "cloud": reference})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("experiment/stages/1/trials", 0, "experiment.stages[1].trials: must be a positive integer, got 0"),
        ("experiment/stages/1/trials", "3", "experiment.stages[1].trials: must be an integer, got '3'"),
        ("experiment/stages/1/trials", True, "experiment.stages[1].trials: must be an integer, got True"),
        ("experiment/stages/1/trials", 2.0, "experiment.stages[1].trials: must be an integer, got 2.0"),
        ("experiment/stages/1/trials", 65,
         "experiment.stages[1].trials: must not exceed the 64 trials of the stage before, got 65"),
        ("experiment/stages/1/trials", ..., "experiment.stages[1].trials: is required"),
        ("experiment/stages/1/trails", 3,
         "experiment.stages[1].trails: is not a known key; did you mean trials? known: trials, iterations"),
        ("experiment/stages/1", 3, "experiment.stages[1]: must be an object with keys, got 3"),
        ("experiment/stages", [], "experiment.stages: must hold at least one stage"),
        ("experiment/hyperband", {"R": 81, "eta": 3},
         "experiment: must hold exactly one of stages, successive_halving, hyperband and chains, "
         "got stages and hyperband"),
        ("experiment", {}, "experiment: must hold exactly one of stages, successive_halving, hyperband and chains, "
         "got none"),
        ("experiment", {"successive_halving": {"n": 4, "r": 8, "R": 4, "eta": 2}},
         "experiment.successive_halving.r: must not exceed R (4), got 8"),
        ("experiment", {"successive_halving": {"n": 4, "r": 1, "R": 4, "eta": 1}},
         "experiment.successive_halving.eta: must be an integer of at least 2, got 1"),
        ("experiment", {"successive_halving": {"n": 4, "r": 1, "R": 4, "eta": 2, "rungs": "odd"}},
         "experiment.successive_halving.rungs: must be one of 'cumulative' or 'incremental', got 'odd'"),
        ("experiment", {"hyperband": {"R": 10**9, "eta": 2}},
         "experiment.hyperband: gives stages that cannot be run: trials: must be at most 1000000, got 536870912; "
         "change its numbers"),
        ("profile", ..., "profile: is required"),
        ("profile/iteration_s", {}, "profile.iteration_s: must hold the latency of at least one number of slots"),
        ("profile/iteration_s/0", 3, "profile.iteration_s.0: must be a number of slots, such as 1 or 2"),
        ("profile/iteration_s/01", 3, "profile.iteration_s.01: must be a number of slots, such as 1 or 2"),
        ("profile/iteration_s/1/mean", 0,
         "profile.iteration_s.1.mean: must be a finite number above 0, got 0.0"),
        ("profile/iteration_s/1/std", -1,
         "profile.iteration_s.1.std: must be a finite number of at least 0, got -1.0"),
        ("profile/start_s/mean", "soon", "profile.start_s.mean: must be seconds or a duration such as "
         "\"90s\", \"45m\", \"2h\" or \"1h30m\", got 'soon'"),
        ("profile/start_s", True, "profile.start_s: must be an object with keys, got True"),
        ("profile/trial_cv", -0.1, "profile.trial_cv: must be a finite number of at least 0, got -0.1"),
        ("profile/run_cv", -0.1, "profile.run_cv: must be a finite number of at least 0, got -0.1"),
        ("cloud/instance_types/0/slots", 0, "cloud.instance_types[0].slots: must be a positive integer, got 0"),
        ("cloud/instance_types/0/usd_per_hour", ..., "cloud.instance_types[0].usd_per_hour: is required"),
        ("cloud/instance_types/0/name", " ", "cloud.instance_types[0].name: must be a non-empty string, got ' '"),
        ("cloud/instance_types", {}, "cloud.instance_types: must be a list, got {}"),
        ("cloud/instance_types", [], "cloud.instance_types: must name at least one instance type"),
        ("cloud/max_nodes", 1.5, "cloud.max_nodes: must be an integer, got 1.5"),
        ("cloud/billing/mode", "weekly",
         "cloud.billing.mode: must be one of 'per_instance' or 'per_function', got 'weekly'"),
        ("cloud/billing/granularity_s", 0, "cloud.billing.granularity_s: must be a finite number above 0, got 0.0"),
        ("objective/deadline_s", -1, "objective.deadline_s: must be a finite number above 0, got -1"),
        ("objective/deadline_s", "0.5x",
         "objective.deadline_s: must be at least 1 times the fastest plan's time, got 0.5x"),
        ("objective/deadline_s", "90",
         "objective.deadline_s: must be seconds or a duration such as \"90s\", \"45m\", \"2h\" or \"1h30m\", "
         "or a multiple of the fastest plan's expected time such as \"1.5x\", got '90'"),
        ("objective/budget_usd", 3,
         "objective: must set exactly one of deadline_s and budget_usd, got deadline_s and budget_usd"),
        ("objective/confidence", 1, "objective.confidence: must be a number from 0.5 to 0.999, got 1.0"),
        ("policies/prefetch", True,
         "policies.prefetch: is not supported, since most plans would save nothing by it; leave it out or set it to "
         "false"),
        ("policies/prefetch", 0, "policies.prefetch: must be true or false, got 0"),
        ("speed", 3,
         "speed: is not a known key; known: experiment, profile, cloud, objective, policies, checkpoint_every_s"),
        ("objective/deadline_s", 10**13,
         "objective.deadline_s: must be 0 or between 1e-12 and 1e+12 in magnitude, got 10000000000000"),
        ("profile/start_s/mean", 1e-300,
         "profile.start_s.mean: must be 0 or between 1e-12 and 1e+12 in magnitude, got 1e-300"),
        ("cloud/instance_types/0/slots", 5000, "cloud.instance_types[0].slots: must be at most 4096, got 5000"),
        ("schema", 2, "schema: must be 1, the one version that this release knows, got 2"),
        ("schema", True, "schema: must be 1, the one version that this release knows, got True"),
    ],
)  # fmt: skip
def test_an_error_names_path_limit_and_value(path, value, message):
    with pytest.raises(InvalidInput) as caught:
        read(changed(path, value))
    assert str(caught.value) == message


def test_early_release_is_off_unless_the_file_turns_it_on():
    assert not read(changed("policies", ...)).policies.early_release
    assert read(changed("policies/early_release", True)).policies == Policies(early_release=True)


def test_planning_needs_an_objective(tmp_path):
    (tmp_path / "p.json").write_text(json.dumps(MINIMAL))
    with pytest.raises(InvalidInput, match=r"^objective: is required to plan"):
        load_problem(tmp_path / "p.json", price_books=books, objective=True)
    assert load_problem(tmp_path / "p.json", price_books=books) == read(MINIMAL)


def test_the_fingerprint_is_of_the_meaning_not_of_the_spelling():
    spelt = changed("objective/deadline_s", "1h", changed("cloud/launch_s", {"std": 5, "mean": 30}))
    spelt = dict(reversed(spelt.items()))
    del spelt["policies"], spelt["schema"]
    assert fingerprint(read(spelt)) == fingerprint(read(FULL))
    assert len(fingerprint(read(FULL))) == 64


def test_how_far_a_run_may_be_off_is_kept_where_it_is_given():
    unsure = read({**FULL, "profile": {**FULL["profile"], "run_cv": 0.04}})
    assert unsure.profile.run_cv == 0.04
    assert read(problem_table(unsure)) == unsure
    sure = read({**FULL, "profile": {**FULL["profile"], "run_cv": 0}})
    assert "run_cv" not in problem_table(sure)["profile"]
    assert fingerprint(sure) == fingerprint(read(FULL)) != fingerprint(unsure)


PLANNERS = make_manager(autoload=False).planners()

PATHS = [
    "experiment", "experiment/stages", "experiment/stages/0", "experiment/stages/1/trials",
    "experiment/stages/1/iterations", "profile", "profile/iteration_s", "profile/iteration_s/1",
    "profile/iteration_s/2/mean", "profile/iteration_s/2/std", "profile/start_s", "profile/start_s/mean",
    "profile/sync_s", "profile/trial_cv", "profile/spread_penalty", "profile/checkpoint_gib", "cloud",
    "cloud/instance_types", "cloud/instance_types/0", "cloud/instance_types/0/name",
    "cloud/instance_types/0/slots", "cloud/instance_types/0/usd_per_hour", "cloud/instance_types/0/speed",
    "cloud/max_nodes", "cloud/launch_s", "cloud/init_s/std", "cloud/billing", "cloud/billing/mode",
    "cloud/billing/granularity_s", "cloud/billing/minimum_s", "cloud/dataset_gib",
    "cloud/transfer_usd_per_gib", "objective", "objective/deadline_s", "objective/confidence", "policies",
    "policies/prefetch", "schema",
]  # fmt: skip

REQUIRED = {
    "experiment", "experiment/stages", "experiment/stages/1/trials", "experiment/stages/1/iterations", "profile",
    "profile/iteration_s", "profile/iteration_s/2/mean", "profile/start_s/mean", "cloud", "cloud/instance_types",
    "cloud/instance_types/0/name", "cloud/instance_types/0/slots", "cloud/instance_types/0/usd_per_hour",
    "objective/deadline_s",
}  # fmt: skip

WRONG = [None, True, "", "x", [], [1], {"zz": 1}, -1, -0.5, float("nan"), float("inf"), 10**400, "\ud800", 1e308]
"""Values of which each is wrong at nearly every place; a place where one is right must keep it."""


def load(data: object, folder: Path) -> Problem:
    (folder / "mutant.json").write_text(json.dumps(data))
    return load_problem(folder / "mutant.json", price_books=books)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mutants")


WORDS = st.text(max_size=3).filter(lambda text: not any(each.isdigit() for each in text))
"""Texts, but for those that say a duration, such as "1m": these are taken for numbers."""


@settings(max_examples=300, deadline=None)
@given(path=st.sampled_from(PATHS), value=st.sampled_from(WRONG) | st.floats() | WORDS | st.integers())
def test_a_retyped_or_out_of_range_value_is_refused_or_kept(folder, path, value):
    problem = refused = None
    try:
        problem = load(changed(path, value), folder)
    except InvalidInput as error:
        refused = error.key
    if problem is None:
        assert refused.startswith(path.split("/")[0]) or "mutant.json" in refused
    else:
        assert _at(problem_table(problem), path) == _meaning(path, value)


@settings(max_examples=100, deadline=None)
@given(path=st.sampled_from([path for path in PATHS if not path.split("/")[-1].isdigit()]))
def test_a_dropped_key_is_refused_where_it_is_required_and_a_renamed_one_everywhere(folder, path):
    dropped = changed(path, ...)
    if path in REQUIRED:
        with pytest.raises(InvalidInput):
            load(dropped, folder)
    else:
        load(dropped, folder)
    with pytest.raises(InvalidInput):
        load(changed(f"{path}_x", 1, dropped), folder)


def _at(table: object, path: str) -> object:
    for part in path.split("/"):
        if part not in table if isinstance(table, dict) else False:
            return None
        table = table[int(part)] if isinstance(table, list) else table[part]
    return table


def _meaning(path: str, value: object) -> object:
    """What the canonical form holds where a file says `value`, a value that was accepted."""
    if path in ("cloud/launch_s", "profile/start_s", "profile/iteration_s/1"):
        return {"mean": float(value), "std": 0.0}
    return value


@settings(max_examples=60, deadline=None)
@given(
    path=st.sampled_from([path for path in PATHS if path != "cloud/max_nodes"]),
    value=st.sampled_from([0, 1, 2, 7, 0.5, 1e-12, 1e12, "1.5x", "1s", 4096]),
)
def test_what_is_accepted_can_be_planned_or_is_said_to_be_infeasible(path, value):
    small = changed("cloud/max_nodes", 4, changed("objective", {"deadline_s": "2x", "confidence": 0.9}))
    small["experiment"] = {"stages": [{"trials": 4, "iterations": 4}, {"trials": 2, "iterations": 8}]}
    refused = table = None
    try:
        problem = read(changed(path, value, small))
        table = forecast(problem, PLANNERS, samples=10).table()
    except RubberBandError as error:
        refused = str(error)
    assert refused or json.loads(json.dumps(table, allow_nan=False)) == table


def test_how_often_trials_save_counts_where_nodes_are_taken_away():
    assert read(FULL).checkpoint_every_s == 600.0
    assert "checkpoint_every_s" not in problem_table(read(changed("checkpoint_every_s", "2m")))
    spot = changed("cloud/instance_types/0/interruptions_per_hour", 0.5)
    assert problem_table(read({**spot, "checkpoint_every_s": "2m"}))["checkpoint_every_s"] == 120.0


def test_spot_is_refused_to_a_function_that_was_measured_and_keeps_nothing():
    measured = changed("profile/measurements", [{"slots": 1}])
    assert read(measured).checkpoint_every_s == 600.0
    measured["profile"]["checkpoint_gib"] = 0.0
    read(measured)
    measured["cloud"]["instance_types"][0]["interruptions_per_hour"] = 0.5
    with pytest.raises(InvalidInput, match="checkpoint_every_s: must be finite on nodes that may be taken away"):
        read(measured)


def test_an_experiment_file_is_told_from_a_problem_file():
    with pytest.raises(InvalidInput, match=r"experiment file.*rb-tune run") as caught:
        read_problem(
            {"train": {"target": "t.py:f"}, "space": {}}, folder=Path(), price_books=make_manager().price_books()
        )
    assert caught.value.key == "train"
