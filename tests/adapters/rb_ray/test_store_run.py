"""Whole runs with their checkpoints in S3: a store that fails in mid-run, a driver that is killed, and going on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from program import counting
from s3server import CREDENTIALS, Bucket, Proxy, s3_server

from rb_core.eventlog import read_log
from rb_core.events import TrialFailed, TrialStarted
from rb_core.state import fold

EXPERIMENT = """
name = "stored"
[train]
target = "train_stored.py:train"
[space]
x = {uniform = [0, 1]}
[experiment]
stages = [{trials = 2, iterations = 2}, {trials = 1, iterations = 40}]
[profile]
iteration_s = {1 = 0.02}
[cloud]
instance_types = [{name = "core", slots = 1, usd_per_hour = 0.17}]
max_nodes = 1
billing = {minimum_s = 0}
[run]
launcher = "process"
storage = "s3://bucket/runs"
checkpoint_every_s = 0.001
[objective]
deadline_s = "10m"
"""


class Driver:
    """`rb-tune` in a process of its own.

    Attributes:
        runs: where run directories are.
        env: of the process.
    """

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.file = folder / "stored.toml"
        self.file.write_text(EXPERIMENT)
        (folder / "train_stored.py").write_text(counting(0.0))
        self.runs = folder / "home" / "runs"
        self.scratch = folder / "tmp"
        self.scratch.mkdir()
        others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        own = {"AWS_ENDPOINT_URL": endpoint, "RB_HOME": str(folder / "home"), "TMPDIR": str(self.scratch)}
        self.env = {**others, **CREDENTIALS, **own}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "rb_plugins", "run", *arguments, "--json"]
        return subprocess.Popen(command, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    @property
    def directory(self) -> Path:
        (directory,) = self.runs.iterdir()
        return directory


def until(process: subprocess.Popen[str], said: str) -> None:
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if said in line:
            return
    raise AssertionError(f"it ended without a word of {said!r}: {seen}")


@pytest.fixture
def proxy():
    with s3_server() as endpoint:
        Bucket(endpoint).make()
        proxy = Proxy(target=int(endpoint.rpartition(":")[2]))
        yield proxy
        proxy.close()


def test_a_run_survives_its_store_and_its_driver(tmp_path, proxy):
    driver, bucket = Driver(tmp_path, proxy.endpoint), Bucket(f"http://127.0.0.1:{proxy.target}")
    # The store refuses in mid-run.
    process = driver.start(str(driver.file))
    until(process, "stage 0 ended")
    proxy.fault, proxy.spare = "denied", ("GET", "HEAD")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert re.search(r"trial \d cannot go on without its checkpoints: .* cannot be kept: access is refused", err)
    assert re.search(r"\(train_stored\.py, line \d+\)$", err, re.MULTILINE), err
    assert f"go on with it: rb-tune run --resume {driver.directory.name}" in err
    assert "Traceback" not in err
    # Before it is mended, the run does not begin again.
    status, _, err = driver.run("--resume", str(driver.directory))
    assert (status, "Traceback" in err) == (2, False)
    assert "run.storage: s3://bucket/runs/" in err
    # The driver is killed.
    proxy.fault = ""
    process = driver.start("--resume", str(driver.directory))
    until(process, "stage 1")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    # And the run ends well, with the best checkpoint in the store and nothing else, there or here.
    status, out, err = driver.run("--resume", str(driver.directory))
    assert status == 0, err
    best = json.loads(out)["best"]["checkpoint"]
    assert re.fullmatch(r"s3://bucket/runs/stored-.*/trial-000\d/iteration-00000042-\w{8}", best)
    assert bucket.read(f"{best.removeprefix('s3://bucket/')}/count") == b"42"
    events = read_log(driver.directory / "events.jsonl").events
    kept = {checkpoint.path for trial in fold(events).trials.values() for checkpoint in trial.checkpoints}
    assert {f"s3://bucket/{key.rpartition('/')[0]}" for key in bucket.below("s3://bucket/runs/")} == kept
    later = [event for event in events if isinstance(event, TrialStarted) and event.stage == 1]
    assert [event for event in events if isinstance(event, TrialFailed)] == []
    assert len(later) >= 3
    assert min(event.from_iteration for event in later) >= 2
    assert list(driver.scratch.glob("rb-start-*")) == []
