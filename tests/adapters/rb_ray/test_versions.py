"""Which versions must be alike, and what a Ray node is started with."""

from __future__ import annotations

import platform

import pytest
from raynodes import node_type
from rb_ray.nodes.bootstrap import bootstrap
from rb_ray.nodes.member import Member
from rb_ray.nodes.starting import arguments
from rb_ray.nodes.versions import labels, mismatch, told, versions

OURS = {"python": "3.11.7", "ray": "2.60.0", "torch": "2.13.0", "rubberband-tune": "0.1.0"}


def test_versions_go_through_labels_unchanged():
    own = versions()
    assert own["python"] == platform.python_version()
    assert told({**labels(own), "ray.io/node-id": "abc"}) == own
    assert mismatch(own, own) == ""


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (OURS, ""),
        ({**OURS, "torch": "2.12.0"}, "torch 2.12.0, and this program has torch 2.13.0"),
        ({**OURS, "torch": "none"}, "torch none, and this program has torch 2.13.0"),
        (
            {**OURS, "python": "3.12.1", "ray": "2.52.0"},
            "python 3.12.1, and this program has python 3.11.7; ray 2.52.0, and this program has ray 2.60.0",
        ),
        ({"ray": "2.60.0", "python": "3.11.7", "torch": "2.13.0"},
         "rubberband-tune unknown, and this program has rubberband-tune 0.1.0"),
    ],
)  # fmt: skip
def test_what_differs_is_named_on_both_sides(theirs, said):
    assert mismatch(OURS, theirs) == said


def test_what_is_missing_here_need_not_be_there():
    assert mismatch({**OURS, "torch": "none"}, OURS) == ""


def test_a_node_has_a_folder_of_its_own_and_tells_its_versions():
    given = arguments(["--address", "a:1"], "/tmp/rb-x")
    assert given[-2:] == ["--address", "a:1"]
    assert given[given.index("--temp-dir") + 1] == "/tmp/rb-x"
    assert f"rb-version-python={platform.python_version()}" in given[given.index("--labels") + 1].split(",")
    assert "--temp-dir" not in arguments([], None)


def test_a_bootstrap_names_node_and_run_and_hides_the_token():
    boot = bootstrap(address="h:1", token="secret", run="r", node="r-0", instance_type=node_type(4), ip="127.0.0.3")
    assert '{"rb:r": 4, "rb:r:r-0": 4}' in boot.argv
    assert "secret" not in " ".join(boot.argv) + repr(boot)
    assert boot.env["RAY_AUTH_MODE"] == "token"
    assert "--node-ip-address" in boot.argv
    elsewhere = bootstrap(address="h:1", token=None, run="r", node="r-0", instance_type=node_type(4))
    assert "--node-ip-address" not in elsewhere.argv
    assert not {"RAY_AUTH_TOKEN", "RAY_AUTH_MODE"} & set(elsewhere.env)


@pytest.mark.parametrize(
    ("cpus", "gpus", "slots", "asked", "bundle"),
    [
        (4.0, 0.0, 4, 1, {"pin": 1.0, "CPU": 1.0}),
        (4.0, 0.0, 4, 3, {"pin": 3.0, "CPU": 3.0}),
        (8.0, 4.0, 4, 2, {"pin": 2.0, "CPU": 4.0, "GPU": 2.0}),
        (8.0, 1.0, 4, 2, {"pin": 2.0, "CPU": 4.0, "GPU": 0.5}),
        (8.0, 2.0, 4, 3, {"pin": 3.0, "CPU": 6.0, "GPU": 1.0}),
        (1.0, 0.0, 3, 1, {"pin": 1.0, "CPU": 0.3333}),
        (0.0, 0.0, 2, 1, {"pin": 1.0}),
    ],
)
def test_a_bundle_has_the_slots_share_of_the_node_in_numbers_that_ray_takes(cpus, gpus, slots, asked, bundle):
    member = Member(name="n", node_id="i", ip="1", slots=slots, own={"pin": 1.0}, cpus=cpus, gpus=gpus)
    assert member.bundle(asked) == bundle
