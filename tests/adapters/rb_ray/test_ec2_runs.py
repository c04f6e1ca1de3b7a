"""`rb-tune run` with provider `ec2`: real bootstraps in namespaces of their own join a real Ray cluster; all end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ec2_run import cloud_table, shim
from faulty_ec2 import FaultyEC2
from faulty_ec2.machines import Machines
from program import Program, counting
from source_tree import ROOT

from rb_core.events import (
    Event,
    LaunchAttempted,
    LaunchGranted,
    NodeLeaving,
    NodeLost,
    NodeReady,
    NodeRequested,
    RunResumed,
    TrialSaved,
    TrialStarted,
)

EXPERIMENT = """
name = "away"
[train]
target = "train_away.py:train"
[space]
x = {uniform = [0, 1]}
[experiment]
stages = [{trials = 2, iterations = 40}, {trials = 1, iterations = 40}]
[profile]
iteration_s = {1 = 0.1}
[run]
launcher = "ray"
checkpoint_every_s = 0.5
[objective]
deadline_s = "20m"
"""

PRICES = {("c5.large", "on_demand"): 0.085, ("c5.large", "spot"): 0.085}

NOTICE_S = 15.0
"""A node looks for a notice every five seconds."""


@pytest.fixture
def cloud() -> Iterator[tuple[FaultyEC2, Machines]]:
    with pytest.MonkeyPatch.context() as patch, shim(patch) as made:
        yield made


def count(events: tuple[Event, ...], kind: type[Event]) -> int:
    return sum(isinstance(event, kind) for event in events)


def instances(events: tuple[Event, ...]) -> dict[str, str]:
    """What the log says was rented, by the names of the nodes."""
    asked = {event.attempt: event.nodes for event in events if isinstance(event, LaunchAttempted)}
    granted = {event.attempt: event.instances for event in events if isinstance(event, LaunchGranted)}
    return {node: made for attempt, ids in granted.items() for node, made in zip(asked[attempt], ids, strict=False)}


def on_two_nodes(folder: Path, cloud: FaultyEC2, *, until: Path | None = None) -> Path:
    """An experiment whose plan is two nodes at first, and whose trials wait in mid-stage `until` a file is there."""
    table = cloud_table(cloud, max_nodes=2).replace("usd_per_hour = 0.085", 'usd_per_hour = 0.085, market = "spot"')
    (folder / "train_away.py").write_text(counting(0.1, held_at=20, until=until))
    (folder / "away.toml").write_text(EXPERIMENT.replace('"20m"', '"1.01x"') + table)
    return folder / "away.toml"


def nothing_left(cloud: FaultyEC2, machines: Machines) -> bool:
    return not cloud.alive() and not cloud.leaked_volumes() and not machines.running


def test_a_run_goes_on_when_one_instance_is_taken_back_and_one_never_comes(cloud, tmp_path):
    ec2, machines = cloud
    ec2.doomed_next.append("Server.InsufficientInstanceCapacity")
    file = on_two_nodes(tmp_path, ec2, until=tmp_path / "told")
    with Program(tmp_path / "home", "run", str(file), "--json", "--yes") as program:
        # The one that came is taken back in the midst of its work, with a notice.
        events = program.until(lambda events: count(events, TrialSaved) > 0)
        (ready, *_) = (event for event in events if isinstance(event, NodeReady))
        ec2.interrupt(instances(events)[ready.node], notice_s=NOTICE_S)
        program.until(lambda events: count(events, NodeLeaving) > 0)
        (tmp_path / "told").touch()
        told = program.answer()
    events = program.events()
    assert told["state"] == "done"
    assert [trial["state"] for trial in told["trials"]].count("finished") == 1
    assert any("InsufficientInstanceCapacity" in event.reason for event in events if isinstance(event, NodeLost))
    (leaving,) = (event for event in events if isinstance(event, NodeLeaving))
    assert leaving.node == ready.node
    assert 0 < leaving.in_s <= NOTICE_S
    # What trained there went on from its checkpoint.
    assert any(event.from_iteration not in (0, 40) for event in events if isinstance(event, TrialStarted))
    assert {made.id for made in ec2.instances()} == set(instances(events).values())
    assert nothing_left(ec2, machines)
    assert ec2.counts()["DeleteParameter"] == 1


@pytest.mark.long
def test_a_run_whose_driver_is_killed_is_resumed_and_leaves_nothing(cloud, tmp_path):
    ec2, machines = cloud
    with Program(tmp_path / "home", "run", str(on_two_nodes(tmp_path, ec2)), "--json", "--yes") as program:
        before = program.until(lambda events: count(events, TrialSaved) > 1)
        program.kill()
    assert program.log is not None
    with Program(tmp_path / "home", "run", "--resume", str(program.log.parent), "--json", "--yes") as again:
        told = again.answer()
    events = again.events()
    assert told["state"] == "done"
    assert told["resumed"] == count(events, RunResumed) == 1
    assert count(events, NodeRequested) > count(before, NodeRequested)
    assert any(event.from_iteration not in (0, 40) for event in events if isinstance(event, TrialStarted))
    assert {made.id for made in ec2.instances()} == set(instances(events).values())
    assert nothing_left(ec2, machines)


@pytest.mark.long
def test_digits_to_the_end(cloud, tmp_path):
    ec2, machines = cloud
    text = (ROOT / "examples" / "digits" / "digits.toml").read_text(encoding="utf-8")
    head, _, rest = text.partition("[cloud]")
    run = rest[rest.index("[run]") :].replace('"ddp"', '"ray"')
    (tmp_path / "train.py").write_bytes((ROOT / "examples" / "digits" / "train.py").read_bytes())
    (tmp_path / "digits.toml").write_text(head + run + cloud_table(ec2, max_nodes=2))
    with Program(tmp_path / "home", "run", str(tmp_path / "digits.toml"), "--json", "--yes") as program:
        program.until(lambda events: count(events, TrialSaved) > 2)
        (victim, *_) = machines.running
        ec2.fail(victim)
        told = program.answer()
    assert told["state"] == "done"
    assert told["best"]["score"] > 0.9
    assert nothing_left(ec2, machines)
    spent = told["actual"]["cost_usd"] + told["actual"].get("profiling_usd", 0.0)
    # What happens between two looks is five seconds off at most, which is more than 1 % of such short lives.
    assert spent == pytest.approx(ec2.bill(PRICES).of("instance"), abs=len(ec2.instances()) * 5.0 * 0.085 / 3600)
