from pathlib import Path

import pytest

from rb_core.clock import ManualClock
from rb_core.errors import LaunchFailure
from rb_core.ports import Launcher, Slot, TrialExit, TrialNotice, TrialRun
from rb_core.testing.fakes import FakeLauncher, FakeTraining
from rb_core.trial import ConfigRead, Iterated, Ready, Reported, Saved, Stop

RUN = TrialRun(
    trial=3,
    stage=1,
    config={"lr": 0.1},
    slots=(Slot(node="n0", index=0),),
    from_iteration=10,
    to_iteration=12,
    max_iterations=20,
    checkpoint=None,
    storage=Path("store"),
    logs=Path("logs"),
)


def said(training, *, act=lambda clock, handle: None):
    """What a start says, with the times."""
    clock = ManualClock()
    inbox = clock.inbox()
    launcher = FakeLauncher(clock, training)
    act(clock, launcher.start(RUN, inbox))
    heard = []
    while (notice := inbox.get()) is not None:
        heard.append((clock.now(), notice.message if isinstance(notice, TrialNotice) else notice))
    assert not launcher.live
    return heard


TRAINING = FakeTraining(start_s=5.0, iteration_s=lambda run: 10.0, save_s=1.0, every_iteration=True)


def test_a_start_says_what_a_real_one_says_in_its_order():
    assert said(TRAINING) == [
        (5.0, Ready(restore_s=0.0)),
        (15.0, Reported(iterations=11, score=3.0)),
        (15.0, Iterated(iterations=11, seconds=10.0)),
        (25.0, Reported(iterations=12, score=3.0)),
        (25.0, Iterated(iterations=12, seconds=10.0)),
        (26.0, Saved(iterations=12, checkpoint="store/trial-3/12", size_bytes=1, save_s=1.0)),
        (26.0, ConfigRead(keys=("lr",))),
        (26.0, TrialExit(trial=3)),
    ]


@pytest.mark.parametrize("stop", [lambda handle: handle.stop(), lambda handle: handle.send(0, Stop())])
def test_a_start_that_is_stopped_saves_what_is_complete(stop):
    heard = said(TRAINING, act=lambda clock, handle: clock.call_at(17.0, lambda: stop(handle)))
    assert heard[-2:] == [
        (17.0, Saved(iterations=11, checkpoint="store/trial-3/11", size_bytes=1, save_s=1.0)),
        (17.0, TrialExit(trial=3)),
    ]


def test_a_killed_start_ends_at_once_and_once():
    def twice(handle):
        handle.kill()
        handle.kill()
        handle.stop()

    heard = said(TRAINING, act=lambda clock, handle: clock.call_at(17.0, lambda: twice(handle)))
    assert heard[-1][0] == 17.0
    assert heard[-1][1].failure.cause == "killed by SIGKILL"
    assert sum(isinstance(message, TrialExit) for _, message in heard) == 1


def test_a_start_that_hangs_is_ended_after_the_grace_time():
    training = FakeTraining(hangs=lambda run: True)
    heard = said(training, act=lambda clock, handle: clock.call_at(7.0, lambda: handle.stop(grace_s=3.0)))
    assert [(t_s, message.failure.cause) for t_s, message in heard] == [(10.0, "killed by SIGKILL")]


def test_leaving_the_launcher_ends_every_start():
    clock = ManualClock()
    launcher = FakeLauncher(clock, TRAINING)
    assert isinstance(launcher, Launcher)
    with launcher:
        launcher.start(RUN, clock.inbox())
        with pytest.raises(LaunchFailure, match="trial 3 runs already"):
            launcher.start(RUN, clock.inbox())
        assert launcher.entered
    assert not launcher.live
    assert not launcher.entered


def test_a_start_may_save_within_its_stage_and_then_saves_nothing_twice():
    training = FakeTraining(iteration_s=lambda run: 10.0, every_iteration=True, save_every=11)
    heard = said(training, act=lambda clock, handle: clock.call_at(12.0, handle.stop))
    saved = [(t_s, message.iterations) for t_s, message in heard if isinstance(message, Saved)]
    assert saved == [(10.0, 11)]
