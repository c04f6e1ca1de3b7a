import dataclasses
import json

import asked
import pytest
from rb_ray.scheduling.allotting import EvenAllotter
from rb_ray.scheduling.elastic import ElasticFleet
from rb_ray.scheduling.fleet import FixedFleet
from rb_ray.scheduling.learned import LearnedAllotter
from rb_ray.scheduling.parts import PROFILE, allotter_for, fleet_for
from rb_ray.scheduling.planned import PlannedAllotter
from rb_ray.scheduling.seen import Seen
from test_elastic_fleet import CLOUD, PROBLEM
from test_learned import first_stage

from rb_core.clock import ManualClock
from rb_core.errors import InvalidInput
from rb_core.hardware import Latency
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_plugins.config.profile import read_profile

EXPERIMENT = ExperimentSpec.successive_halving(n=9, r=10, R=90, eta=3)


def terms(**changes):
    return asked.terms(**{"max_t": 90, "grace_period": 10, **changes})


class Fixed(FixedFleet):
    """Two nodes of two slots, without Ray."""

    nodes = (2, 2)


def allotter(folder=None, **changes):
    return allotter_for(terms(**changes), Fixed(ManualClock()), ManualClock(), folder=folder)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, EvenAllotter),
        ({"profile": PROBLEM.profile}, EvenAllotter),
        ({"deadline": "1h"}, LearnedAllotter),
        ({"deadline": "1.5x", "profile": PROBLEM.profile}, PlannedAllotter),
        ({"budget_usd": 1.0, "profile": PROBLEM.profile, "nodes": CLOUD}, PlannedAllotter),
    ],
)
def test_what_is_asked_decides_who_allots(changes, kind):
    assert isinstance(allotter(**changes), kind)


def test_what_is_asked_decides_what_nodes_there_are(tmp_path, monkeypatch):
    monkeypatch.setenv("RB_HOME", str(tmp_path))
    assert isinstance(fleet_for(terms(), ManualClock()), FixedFleet)
    assert isinstance(fleet_for(terms(nodes=CLOUD, deadline="1h"), ManualClock()), ElasticFleet)
    assert list(tmp_path.iterdir()) == []


def test_rented_nodes_need_a_limit_to_plan_for(tmp_path):
    asked = terms(nodes=CLOUD)
    fleet = fleet_for(asked, ManualClock())
    with pytest.raises(InvalidInput, match="needs a limit by which they are taken and given back"):
        allotter_for(asked, fleet, ManualClock())


def test_a_planner_that_nobody_gave_is_refused():
    with pytest.raises(InvalidInput, match="planner: must be the name of a planner"):
        allotter(deadline="1h", profile=PROBLEM.profile, planner="none")


def test_a_provider_that_nobody_gave_is_refused():
    asked = terms(nodes=dataclasses.replace(CLOUD, provider="nowhere"))
    with pytest.raises(InvalidInput, match=r"nodes\.provider: must be the name of a provider"):
        fleet_for(asked, ManualClock())


def test_only_widths_that_a_trial_may_have_are_planned_with():
    profile = ScalingProfile(iteration_s={1: Latency(mean=10.0), 2: Latency(mean=5.0), 4: Latency(mean=2.0)})
    narrow = allotter(deadline="10h", profile=profile, max_slots_per_trial=2)
    narrow.allot(EXPERIMENT, 0, tuple(range(9)), Seen())
    assert narrow.allot(EXPERIMENT, 2, (0,), Seen(elapsed_s=100.0)).slots_per_trial == 2


def test_a_profile_that_was_measured_serves_the_next_run(tmp_path):
    made = allotter(tmp_path, deadline="10h", max_slots_per_trial=1)
    made.allot(EXPERIMENT, 0, tuple(range(9)), Seen())
    made.allot(EXPERIMENT, 1, (0, 1, 2), Seen(elapsed_s=110.0, stints=first_stage()))
    assert json.loads((tmp_path / PROFILE).read_text())["schema"] == 1
    profile = read_profile(PROFILE, folder=tmp_path)
    assert profile.iteration_s[1].mean == pytest.approx(10.0)
    assert terms(profile=tmp_path / PROFILE).profile == profile
