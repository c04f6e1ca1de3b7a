"""Many trials under faults: random errors, nodes killed and replaced, the driver killed and restored; then the books.

    python examples/ray/storm.py [--trials 200] [--restores 2] [--kills 6] [--seed 0]

Scores are a function of a trial's number and step, and every step that is run is written down. So the books can be
made from outside: who stood at which rung, who should have gone on, who did. The exit status is 0 when every trial is
accounted for.
"""

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

MAX_T, ETA = 9, 3
RUNGS = (1, 3, 9)
NODES, SLOTS = 3, 2
STEP_S = 0.05
MAX_FAILURES = 2
"""Errors and lost nodes that Ray lets a trial have, each beginning again from its last checkpoint."""


def score(number: int, step: int) -> float:
    """Of a trial at a step."""
    return random.Random(number * 1000 + step).random()


def train(config: dict) -> None:
    """A trial that is sometimes at fault."""
    from ray import tune

    checkpoint, done = tune.get_checkpoint(), 0
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            done = int(Path(folder, "step").read_text(encoding="utf-8"))
    for step in range(done + 1, MAX_T + 1):
        time.sleep(STEP_S)
        if random.random() < config["fault_rate"]:
            raise RuntimeError("a fault, as they happen")
        with open(config["book"], "a", encoding="utf-8") as book:
            book.write(f"{config['number']} {step}\n")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step), encoding="utf-8")
            tune.report({"score": score(config["number"], step)}, checkpoint=tune.Checkpoint.from_directory(folder))


def drive(address: str, folder: str, trials: int, fault_rate: float) -> None:
    """Tune, or go on with it; the program that is killed. Prints how each trial ended."""
    import ray
    from ray import tune
    from rb_ray import RubberBandScheduler

    ray.init(address=address, log_to_driver=False, logging_level="error")
    trainable = tune.with_resources(train, {"cpu": 1})
    if tune.Tuner.can_restore(f"{folder}/storm"):
        tuner = tune.Tuner.restore(f"{folder}/storm", trainable)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space={
                "number": tune.grid_search(list(range(trials))),
                "book": f"{folder}/book",
                "fault_rate": fault_rate,
            },
            tune_config=tune.TuneConfig(
                metric="score", mode="max", scheduler=RubberBandScheduler(max_t=MAX_T, reduction_factor=ETA)
            ),
            run_config=tune.RunConfig(
                storage_path=folder,
                name="storm",
                verbose=0,
                failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
            ),
        )
    results = tuner.fit()
    ended = {r.config["number"]: r.error is None for r in results}
    # Not by standard output, where Ray has lines of its own.
    Path(folder, "ended.json").write_text(json.dumps({"results": len(results), "ended": ended}))


class Storm:
    """A cluster, a driver on it, and what happens to both.

    Args:
        options: of the command.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        from ray.cluster_utils import Cluster

        self.options = options
        self.chance = random.Random(options.seed)
        self.folder = tempfile.mkdtemp(prefix="rb-storm-")
        self.book = Path(self.folder, "book")
        self.events: Counter[str] = Counter()
        # A folder of its own, so that no other cluster of this machine is taken for it, nor it for another.
        self.own = tempfile.mkdtemp(prefix="rb", dir="/tmp")
        os.environ["RAY_TMPDIR"] = self.own
        head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": f"{self.own}/ray"}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.cluster.add_node(num_cpus=SLOTS) for _ in range(NODES)]

    def run(self) -> dict:
        """Drive until a driver ends by itself; what it said."""
        o = self.options
        expected = o.trials * 1.9  # steps, about
        restores = sorted(self.chance.uniform(0.1, 0.9) * expected for _ in range(o.restores))
        kills = sorted(self.chance.uniform(0.1, 0.9) * expected for _ in range(o.kills))
        while True:
            command = [sys.executable, __file__, "--drive", self.cluster.address, self.folder, str(o.trials), "0.01"]
            driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
            while driver.poll() is None:
                time.sleep(0.1)
                steps = len(self.lines())
                if kills and steps > kills[0]:
                    kills.pop(0)
                    self.lose_a_node()
                if restores and steps > restores[0]:
                    restores.pop(0)
                    os.killpg(driver.pid, signal.SIGKILL)
                    driver.wait()
                    self.events["drivers killed"] += 1
            if driver.returncode == 0:
                return json.loads(Path(self.folder, "ended.json").read_text())
            if driver.returncode != -signal.SIGKILL:
                raise SystemExit(f"the driver failed with status {driver.returncode}")

    def lose_a_node(self) -> None:
        """Kill one, and add another."""
        victim = self.nodes.pop(self.chance.randrange(len(self.nodes)))
        self.cluster.remove_node(victim, allow_graceful=False)
        self.nodes.append(self.cluster.add_node(num_cpus=SLOTS))
        self.events["nodes killed"] += 1

    def lines(self) -> list[tuple[int, int]]:
        """What was run: (trial, step)."""
        text = self.book.read_text(encoding="utf-8") if self.book.exists() else ""
        return [(int(line.split()[0]), int(line.split()[1])) for line in text.splitlines() if len(line.split()) == 2]

    def close(self) -> None:
        """End the cluster, and remove what it and the trials have written."""
        self.cluster.shutdown()
        for folder in (self.folder, self.own):
            shutil.rmtree(folder, ignore_errors=True)


def complaints(trials: int, lines: list[tuple[int, int]], ended: dict[int, bool]) -> list[str]:
    """What is wrong with the books; nothing, one hopes.

    Args:
        trials: how many there were.
        lines: each step that was run.
        ended: for each trial whether it ended without an error.
    """
    wrong = []
    if sorted(ended) != list(range(trials)):
        wrong.append(f"{trials} trials began, and {len(ended)} are accounted for")
    reached = dict.fromkeys(range(trials), 0)
    for number, step in lines:
        reached[number] = max(reached[number], step)
    standing = set(range(trials))
    for rung, after, share in zip(RUNGS[:-1], RUNGS[1:], (trials // ETA, trials // ETA**2), strict=True):
        through = {n for n in standing if reached[n] >= rung and (ended.get(n) or reached[n] > rung)}
        on = {n for n in standing if reached[n] > rung}
        out = through - on
        if any(reached[n] != rung for n in out):
            wrong.append(f"a trial that was stopped at {rung} went on")
        worst = min((score(n, rung) for n in on), default=1.0)
        better = [n for n in out if score(n, rung) > worst]
        if better:
            wrong.append(f"at {rung} {better} were stopped, though better than some who went on")
        if len(on) > share:
            wrong.append(f"{len(on)} went on from {rung}, where {share} should at most")
        if any(ended.get(n) and reached[n] < after for n in on):
            wrong.append(f"a trial that went on from {rung} is done, but not at {after}")
        standing = on
    return wrong


def main() -> int:
    """Let it storm, and look at the books."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option, default in (("trials", 200), ("restores", 2), ("kills", 6), ("seed", 0)):
        parser.add_argument(f"--{option}", type=int, default=default)
    options = parser.parse_args()
    # One token for all nodes and all drivers, set before ray is imported.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0")
    began = time.monotonic()
    storm = Storm(options)
    try:
        said = storm.run()
        lines = storm.lines()
    finally:
        storm.close()
    ended = {int(number): good for number, good in said["ended"].items()}
    wrong = complaints(options.trials, lines, ended)
    faults = ", ".join(f"{count} {what}" for what, count in storm.events.items())
    print(
        f"{options.trials} trials, {sum(not good for good in ended.values())} of them failed for good; {faults}; "
        f"{len(lines)} steps run, {len(set(lines))} different ones; {time.monotonic() - began:.0f} s"
    )
    for each in wrong:
        print(f"WRONG: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        drive(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
    else:
        sys.exit(main())
