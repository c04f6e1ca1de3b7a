"""Ray Tune's schedulers and ours on the same nodes, trials and score curves: when each ends, what it holds till then.

    python examples/benchmarks/ray_contest.py [step_s] [contestants]

27 trials of up to 27 steps, rungs at 1, 3, 9 and 27 steps, on four nodes of one slot. A step is a sleep, so the figures
are those of the schedulers and of Ray, not of a model. Ours may give a survivor several slots, and a step is then
shorter by `SPEED_UP`; `*_narrow` leaves every trial at one slot. Nodes are counted as Ray's node table shows them, from
the call of `Tuner.fit` to its return. Contestants run one after another, each in processes of its own, on a cluster of
its own; the elastic ones are given the earliest end of those before them as their deadline. Prints one line of JSON.
"""

import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TRIALS, STEPS, ETA, NODES = 27, 27, 3, 4
RUNGS = (1, 3, 9, 27)
SPEED_UP = {1: 1.0, 2: 1.8, 4: 3.2}
"""Of data-parallel training on so many slots, as in examples/evaluation's measured curves or below them."""

RAYS_OWN = ("fifo", "asha", "hyperband")
OURS = ("fixed_narrow", "fixed", "elastic_narrow", "elastic")
LOOK_EVERY_S = 0.2


def score(number: int, step: int) -> float:
    """A learning curve: late bloomers are among the good ones, but not the best."""
    rng = random.Random(number)
    final, pace = rng.random(), rng.uniform(2.0, 6.0)
    return final * (1.0 - math.exp(-step / pace))


def train(config: dict) -> None:
    """A trial: sleeps, reports, and can be taken up where it was."""
    import ray
    import rb_ray
    from ray import tune

    took_s = config["step_s"] / SPEED_UP[rb_ray.get_allocation().slots]
    checkpoint, done = tune.get_checkpoint(), 0
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            done = int(Path(folder, "step").read_text(encoding="utf-8"))
    for step in range(done + 1, STEPS + 1):
        time.sleep(took_s)
        node = ray.get_runtime_context().get_node_id()
        with open(config["book"], "a", encoding="utf-8") as book:
            book.write(f"{time.time()} {node} {os.getpid()} {took_s} {step}\n")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step), encoding="utf-8")
            tune.report({"score": score(config["number"], step)}, checkpoint=tune.Checkpoint.from_directory(folder))


def scheduler(contestant: str, step_s: float, deadline_s: float) -> object:
    """What decides, by the contestant's name."""
    from ray.tune import schedulers
    from rb_ray import RubberBandScheduler

    import rb_core.providers.local
    from rb_core import Billing, Cloud, InstanceType, Latency, ScalingProfile

    if contestant == "fifo":
        return schedulers.FIFOScheduler()
    if contestant == "asha":
        return schedulers.ASHAScheduler(max_t=STEPS, grace_period=1, reduction_factor=ETA)
    if contestant == "hyperband":
        return schedulers.HyperBandScheduler(max_t=STEPS, reduction_factor=ETA)
    widest = 1 if contestant.endswith("_narrow") else max(SPEED_UP)
    terms: dict = {"max_t": STEPS, "reduction_factor": ETA, "max_slots_per_trial": widest}
    if contestant.startswith("elastic"):
        # Whoever sleeps needs no core.
        rb_core.providers.local.devices = lambda: ("",) * NODES
        node = InstanceType(name="node", slots=1, usd_per_hour=1.0)
        terms["deadline"] = deadline_s
        terms["nodes"] = Cloud(
            provider="local",
            instance_types=(node,),
            max_nodes=NODES,
            billing=Billing(minimum_s=0),
            init_s=Latency(mean=3),
        )
        terms["profile"] = ScalingProfile(
            iteration_s={w: Latency(mean=step_s / gain) for w, gain in SPEED_UP.items() if w <= widest},
            start_s=Latency(mean=3.0),
            sync_s=1.0,
        )
    return RubberBandScheduler(**terms)


class Watch(threading.Thread):
    """Counts node-seconds until it is told to end."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.node_s = 0.0
        self.most = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Look at the node table, again and again."""
        import ray

        last = time.monotonic()
        while not self.over.wait(LOOK_EVERY_S):
            now, held = time.monotonic(), sum(n["Alive"] and n["Resources"].get("CPU", 0) > 0 for n in ray.nodes())
            self.node_s += held * (now - last)
            self.most, last = max(self.most, held), now


def contest(contestant: str, step_s: float, deadline_s: float) -> dict:
    """Run one contestant, in this process."""
    import ray
    from ray import tune
    from ray.cluster_utils import Cluster

    storage = tempfile.mkdtemp(prefix="rb-contest-")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        if not contestant.startswith("elastic"):
            for _ in range(NODES):
                cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        tuner = tune.Tuner(
            tune.with_resources(train, {"cpu": 1}),
            param_space={
                "number": tune.grid_search(list(range(TRIALS))),
                "step_s": step_s,
                "book": f"{storage}/book",
            },
            tune_config=tune.TuneConfig(
                metric="score", mode="max", scheduler=scheduler(contestant, step_s, deadline_s)
            ),
            run_config=tune.RunConfig(storage_path=storage, name="contest", verbose=0),
        )
        watch = Watch()
        watch.start()
        began = time.monotonic()
        results = tuner.fit()
        took_s = time.monotonic() - began
        watch.over.set()
        watch.join()
        return {
            "end_s": round(took_s, 1),
            "node_s": round(watch.node_s, 1),
            "most_nodes": watch.most,
            **figures(Path(storage, "book").read_text(encoding="utf-8"), contestant in OURS),
            "best": round(max(r.metrics["score"] for r in results if r.metrics), 4),
            "errors": results.num_errors,
        }
    finally:
        ray.shutdown()
        cluster.shutdown()


def figures(book: str, staged: bool) -> dict:
    """What follows from the steps that were run.

    Args:
        book: a line for each: when it ended, where, in which process, how long it took, and its number.
        staged: whether no trial passes a rung before all have come to it.

    Returns:
        Steps; the median pause of a node between the steps of two processes; for staged ones the median pause of all
        nodes at a rung. Both are without the steps themselves, and hold the start of a process.
    """
    rows = [line.split() for line in sorted(book.splitlines(), key=lambda line: float(line.split()[0]))]
    steps = [(float(at), node, pid, float(took), int(step)) for at, node, pid, took, step in rows]
    restarts, last = [], {}
    for at, node, pid, took, _ in steps:
        if node in last and last[node][1] != pid:
            restarts.append(at - took - last[node][0])
        last[node] = (at, pid)
    found: dict = {"steps": len(steps), "restart_s": round(statistics.median(restarts), 2)}
    if staged:
        pauses = []
        for rung in RUNGS[:-1]:
            through = max(at for at, _, _, _, step in steps if step <= rung)
            pauses.append(min(at - took for at, _, _, took, step in steps if step > rung) - through)
        found["barrier_s"] = round(statistics.median(pauses), 2)
    return found


def measure(step_s: float, contestants: list[str]) -> dict:
    """Every contestant in turn."""
    results: dict[str, dict] = {}
    environment = {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AIR_NEW_OUTPUT": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "RB_HOME": tempfile.mkdtemp(prefix="rb-contest-home-"),
    }
    for contestant in contestants:
        earliest_s = min((r["end_s"] for r in results.values() if r["end_s"]), default=STEPS * step_s * 2)
        command = [sys.executable, __file__, "--one", contestant, str(step_s), str(earliest_s)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        results[contestant] = json.loads(done.stdout.splitlines()[-1])
        print(contestant, results[contestant], file=sys.stderr, flush=True)
    return {
        "benchmark": "ray_contest",
        "step_s": step_s,
        **results,
        "ratio": ratio(results),
        "barrier": barrier(results),
    }


def ratio(results: dict[str, dict]) -> float | None:
    """Node-seconds of ours, elastic, against the best of Ray's own that found an equally good configuration."""
    ours = results.get("elastic")
    theirs = [results[n]["node_s"] for n in RAYS_OWN if n in results and ours and results[n]["best"] >= ours["best"]]
    return round(ours["node_s"] / min(theirs), 3) if ours and theirs else None


def barrier(results: dict[str, dict]) -> float | None:
    """The pause of all nodes at a rung, elastic, in restarts of a process as ASHA has them."""
    if not {"asha", "elastic"} <= results.keys():
        return None
    return round(results["elastic"]["barrier_s"] / results["asha"]["restart_s"], 2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(contest(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))))
    else:
        print(json.dumps(measure(float((sys.argv[1:] or ["1"])[0]), sys.argv[2:] or [*RAYS_OWN, *OURS])))
