"""Functions of scripts, closures and modules that do more than they should on import; and parents that are killed."""

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from rb_core.errors import InvalidInput, LaunchFailure
from rb_core.launchers.process import ProcessLauncher
from rb_core.target import Target
from rb_core.testing.launching_contract import Story, a_run, is_running
from rb_core.trial import Remark, Reported


def script(folder, text, name="script.py"):
    file = folder / name
    file.write_text(textwrap.dedent(text))
    return file


def test_a_script_without_a_main_guard_trains_its_own_function(tmp_path):
    file = script(
        tmp_path,
        """
        from pathlib import Path
        import torch
        from rb_core.launchers.ddp import DdpLauncher
        from rb_core.testing.launching_contract import Story, a_run
        from rb_core.target import Target
        from rb_core.trial import Reported

        print("main runs")

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 10

            def __getitem__(self, index):
                return torch.tensor(float(index))

        def train(config, trial):
            trial.restore()
            batches = trial.loader(Data(), global_batch_size=4, num_workers=2)
            for _ in trial.iterations():
                trial.report(sum(batch.sum() for batch in batches))

        with DdpLauncher(Target.of(train)) as launcher:
            story = Story(launcher, a_run(Path(__file__).parent / "run")).to_end()
        print(story.failure, story.all(Reported))
        """,
    )
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout == "main runs\nNone [Reported(iterations=1, score=45.0)]\n"
    assert ran.stderr == ""


def test_a_closure_is_sent_with_what_it_holds(tmp_path):
    held = {"score": 7}

    def train(config, trial):
        trial.restore()
        for _ in trial.iterations():
            trial.report(held["score"])

    with ProcessLauncher(Target.of(train)) as launcher:
        story = Story(launcher, a_run(tmp_path)).to_end()
    assert [m.score for m in story.all(Reported)] == [7.0]


def test_a_choice_that_is_a_function_reaches_the_rank(tmp_path):
    def train(config, trial):
        trial.restore()
        for _ in trial.iterations():
            trial.report(config["activation"](3))

    with ProcessLauncher(Target.of(train)) as launcher:
        story = Story(launcher, a_run(tmp_path, config={"activation": lambda x: x * x})).to_end()
    assert [m.score for m in story.all(Reported)] == [9.0]


def test_a_configuration_that_cannot_be_sent_is_a_launch_failure(tmp_path):
    with (
        ProcessLauncher(Target.of(lambda config, trial: None)) as launcher,
        pytest.raises(LaunchFailure, match="configuration of trial 0 cannot be sent"),
    ):
        launcher.start(a_run(tmp_path, config={"lock": threading.Lock()}), None)


def test_a_module_that_leaves_threads_is_imported_by_the_ranks(tmp_path):
    file = script(
        tmp_path,
        """
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()

        def train(config, trial):
            trial.restore()
            for _ in trial.iterations():
                trial.report(config["step"])
        """,
        "threaded.py",
    )
    with ProcessLauncher(Target.parse(f"{file}:train")) as launcher:
        for _ in range(2):
            story = Story(launcher, a_run(tmp_path)).to_end()
            assert story.failure is None
            (remark,) = story.all(Remark)
            assert "leaves threads running" in remark.text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no data')", r"could not be imported: ValueError: no data \(broken.py, line 2\)"),
        ("import nonsense_module", r"could not be imported: ModuleNotFoundError: .*\(broken.py, line 2\)"),
        ("raise SystemExit(3)", r"could not be imported: SystemExit: 3"),
        ("train = 3", "must be a function, got a int"),
        ("def train(config): pass", r"must accept \(config, trial\)"),
    ],
)
def test_a_module_that_is_no_use_is_one_clear_error(tmp_path, body, message):
    file = script(tmp_path, f"\n{body}\ntrain = globals().get('train')\n", "broken.py")
    with pytest.raises(InvalidInput, match=message) as caught, ProcessLauncher(Target.parse(f"{file}:train")):
        pass
    assert caught.value.key == "train.target"
    assert "\n" not in str(caught.value)


def test_a_broken_package_of_a_launcher_is_one_clear_error(tmp_path, monkeypatch):
    script(tmp_path, "raise OSError('look here:\\n  libgone.so.1: cannot open')", "broken_package.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = script(tmp_path, "def train(config, trial): pass", "sound.py")
    launcher = ProcessLauncher(Target.parse(f"{file}:train"), modules=("broken_package",))
    with pytest.raises(InvalidInput) as caught, launcher:
        pass
    assert str(caught.value) == (
        "run.launcher: needs broken_package, which cannot be imported (OSError: libgone.so.1: cannot open); "
        "`rb-tune doctor` says how to mend it"
    )


def test_nothing_survives_a_parent_that_is_killed(tmp_path):
    file = script(
        tmp_path,
        """
        import os
        from pathlib import Path
        from rb_core.testing import launching_contract as contract
        from rb_core.launchers.process import ProcessLauncher
        from rb_core.target import Target
        from rb_core.trial import Remark

        target = Target(name="it", module=contract.__name__, function="abandons_a_process")
        launcher = ProcessLauncher(target).__enter__()
        stories = [contract.Story(launcher, contract.a_run(Path(__file__).parent, trial=n, ranks=2)) for n in (0, 1)]
        abandoned = [story.until(Remark).text for story in stories]
        print(launcher.server_pid, *abandoned, flush=True)
        stories[0].to_end()
        """,
    )
    with subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        family = [*pids, *(above(pid) for pid in pids[1:]), *(above(above(pid)) for pid in pids[1:])]
        assert len(set(family)) == 7
        watched = {pid: os.pidfd_open(pid) for pid in family}
        parent.send_signal(signal.SIGKILL)
    for pid, pidfd in watched.items():
        select.select([pidfd], [], [], 30)
        os.close(pidfd)
        assert not is_running(pid)


def above(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
