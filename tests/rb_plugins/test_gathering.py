"""A launcher whose nodes have to join it makes the provider, wherever one is made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from scipy.stats import uniform

from rb_core.errors import InvalidInput, RunInterrupted
from rb_core.events import StageEnded
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.launchers.process import ProcessLauncher
from rb_core.plan import Objective
from rb_core.ports import Gatherer, Launcher
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_plugins import Session, hookimpl, make_manager
from rb_plugins.tuning import Measuring

CLOUD = Cloud(
    instance_types=(InstanceType(name="core", slots=1, usd_per_hour=0.17),), max_nodes=1, billing=Billing(minimum_s=0)
)
PROFILE = ScalingProfile(iteration_s={1: Latency(mean=0.01)}, start_s=Latency(mean=0.1))
SPEC = ExperimentSpec.from_stages([(2, 2), (1, 2)])


def train(config, trial):
    trial.load()
    for _ in trial.iterations():
        trial.report(config["x"])
        if trial.save_due:
            with trial.save() as folder:
                (folder / "state").write_text("kept")


class Gathering(ProcessLauncher):
    """Notes when it makes a provider, and when that is closed; its nodes are gone after `slow` questions for them."""

    name = "gathering"

    def __init__(self, target, log, slow=0):
        super().__init__(target)
        self.log = log
        self.slow = slow

    def gather(self, make, inbox):
        provider = make(inbox)
        self.log.append("made" if self.server_pid else "made before")
        owned, released, close, late = provider.owned, provider.release, provider.close, [0]

        def release(names):
            late[0] = self.slow
            released(names)

        def asked(run):
            late[0] -= 1
            return ("slow",) if late[0] >= 0 else owned(run)

        def closed():
            self.log.append("closed")
            close()

        provider.release, provider.owned, provider.close = release, asked, closed
        return provider


@pytest.fixture
def session(tmp_path):
    def session(log, slow=0):
        @hookimpl
        def register():
            return {"gathering": lambda *, target, clock: Gathering(target, log, slow)}

        plugin = SimpleNamespace(rubberband_register_launchers=register)
        return Session(manager=make_manager(autoload=False, plugins=[plugin]), directory=tmp_path / "home")

    return session


def tune(session: Session, **options):
    objective = Objective(deadline_s=3600.0)
    return session.tune(train, {"x": uniform(0, 1)}, SPEC, CLOUD, objective, launcher="gathering", **options)


def test_it_is_a_launcher_and_a_gatherer():
    assert isinstance(Gathering(None, []), Launcher)
    assert isinstance(Gathering(None, []), Gatherer)
    assert not isinstance(ProcessLauncher(None), Gatherer)


def test_nodes_of_check_profiling_and_run_are_gathered_and_the_check_starts_nothing(session):
    log = []
    outcome = tune(session(log, slow=2), profile=Measuring(slots=(1,), budget_s=2.0))
    assert outcome.ending == "done"
    # The check looks, and so does the launcher that is entered: it knows then where its nodes come from.
    assert log == ["made before", "closed", "made before", "closed", "made", "closed", "made", "closed"]


def test_a_run_that_goes_on_gathers_its_nodes(session):
    log = []
    made = session(log)

    def interrupt(event):
        if isinstance(event, StageEnded):
            raise KeyboardInterrupt

    with pytest.raises(RunInterrupted):
        tune(made, profile=PROFILE, observers=[interrupt])
    log.clear()
    assert made.resume(made.report().directory.run, train).ending == "done"
    assert log == ["made before", "closed", "made", "closed"]


def test_a_cloud_that_its_provider_cannot_serve_is_refused_and_nothing_stays_open(session):
    log = []
    big = Cloud(instance_types=(InstanceType(name="core", slots=4096, usd_per_hour=1.0),), max_nodes=1)
    made = session(log)
    launcher = Gathering(None, log)
    with pytest.raises(InvalidInput, match=r"cloud\.instance_types\[0\]\.slots"):
        made.provider(big, made.clock.inbox(), launcher)
    assert log == ["made before", "closed"]
