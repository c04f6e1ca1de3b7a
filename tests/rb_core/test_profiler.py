"""The profiler on a manual clock: what it measures is what is true, and it ends in time with one clear sentence."""

import math
from dataclasses import dataclass, field

import pytest

from rb_core.clock import ManualClock, SystemClock
from rb_core.errors import InvalidInput, TrialFailure, UnusableProfile
from rb_core.hardware import Latency
from rb_core.launchers.process import ProcessLauncher
from rb_core.measurement import BETWEEN_RUNS_CV, Measurement, summarise
from rb_core.ports import Slot, TrialExit, TrialNotice
from rb_core.profiler import profile
from rb_core.steadiness import steadiness_warnings
from rb_core.target import Target
from rb_core.trial import ConfigRead, Iterated, Ready, Remark, Reported, Saved

CONFIGS = [{"lr": 10.0**-k, "width": 16 * k} for k in range(1, 9)]


@dataclass
class Truth:
    """How a made-up training function behaves; every part may depend on the start."""

    iteration_s: object = lambda run, i: 0.3 * (0.25 + 0.75 / len(run.slots))
    start_s: float = 0.2
    restore_s: float = 0.05
    warm_up_s: float = 0.5
    save_s: float = 0.1
    score: object = lambda run: 0.5
    fails: object = lambda run: None
    hangs: object = lambda run: False
    keys: tuple = ("lr", "width")
    remark: str = ""
    at_restart: object = lambda: None


@dataclass
class MadeUpLauncher:
    """Plays a truth on a manual clock and keeps book of what runs."""

    clock: ManualClock
    truth: Truth
    name: str = "made-up"
    runs: list = field(default_factory=list)
    running: dict = field(default_factory=dict)
    together: list = field(default_factory=list)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def start(self, run, inbox):
        assert run.trial not in self.running
        assert not {s for other in self.running.values() for s in other.slots} & set(run.slots)
        self.runs.append(run)
        self.running[run.trial] = run
        self.together.append((len(run.slots), sorted(r.trial for r in self.running.values())))
        return Handle(self, run, inbox)


class Handle:
    def __init__(self, launcher, run, inbox):
        self.trial, self.launcher, self.run, self.inbox = run.trial, launcher, run, inbox
        self.at_s, self.timers = launcher.clock.now(), []
        truth = launcher.truth
        if cause := truth.fails(run):
            self.later(truth.start_s, lambda: self.exit(cause))
            return
        restored = run.from_iteration > 0
        self.say(truth.start_s + truth.restore_s * restored, Ready(restore_s=truth.restore_s * restored))
        if restored:
            self.later(0, truth.at_restart)
        if truth.hangs(run):
            return
        for i in range(run.from_iteration, run.to_iteration):
            seconds = truth.iteration_s(run, i) + truth.warm_up_s * (i == run.from_iteration)
            if truth.score(run) is not None:
                self.say(0, Reported(iterations=i + 1, score=truth.score(run)))
            self.say(seconds, Iterated(iterations=i + 1, seconds=seconds))
        path = run.storage / f"trial-{run.trial:04d}" / "checkpoint"
        self.later(0, lambda: (path.parent.mkdir(exist_ok=True), path.write_text("state")))
        self.say(0, Saved(iterations=run.to_iteration, checkpoint=str(path), size_bytes=1024, save_s=0.0))
        self.say(0, ConfigRead(keys=truth.keys))
        if truth.remark:
            self.say(0, Remark(text=truth.remark))
        self.later(truth.save_s, self.exit)

    def later(self, seconds, action):
        self.at_s += seconds
        self.timers.append(self.launcher.clock.call_at(self.at_s, action))

    def say(self, seconds, message):
        self.later(seconds, lambda: self.inbox.put(TrialNotice(trial=self.trial, rank=0, message=message)))

    def exit(self, cause=None):
        if self.launcher.running.pop(self.trial, None) is not None:
            failure = TrialFailure(trial=self.trial, rank=0, cause=cause) if cause else None
            self.inbox.put(TrialExit(trial=self.trial, failure=failure))

    def kill(self):
        for timer in self.timers:
            timer.cancel()
        self.at_s = self.launcher.clock.now()
        self.later(0.1, lambda: self.exit("killed by SIGKILL"))


def measure(truth=None, *, slots=2, sizes=(1, 2), configs=CONFIGS, tmp_path=None, **options):
    clock = ManualClock()
    launcher = MadeUpLauncher(clock, truth or Truth())
    machine = [Slot(node="n0", index=i) for i in range(slots)]
    try:
        result = profile(launcher, clock, configs=configs, slots=machine, sizes=sizes, folder=tmp_path, **options)
    finally:
        assert launcher.running == {}
    return result, launcher


# What it measures


def test_every_part_of_a_start_is_recovered(tmp_path):
    result, _ = measure(tmp_path=tmp_path)
    measured = result.profile
    assert measured.iteration_s[1].mean == pytest.approx(0.3)
    assert measured.iteration_s[2].mean == pytest.approx(0.3 * 0.625)
    assert measured.iteration_s[1].std == pytest.approx(0)
    fresh_s, restored_s = 0.2 + 0.5, 0.2 + 0.5 + 0.05
    assert fresh_s < measured.start_s.mean < restored_s
    assert measured.save_s.mean == pytest.approx(0.1)
    assert measured.trial_cv == pytest.approx(0, abs=1e-9)
    assert measured.checkpoint_gib == pytest.approx(1024 / 2**30)
    assert {m.restore_s for m in result.measurements if m.from_iteration} == {0.05}
    assert result.warnings == ()
    assert list(tmp_path.iterdir()) == []


def test_the_parts_add_up_to_what_each_start_took():
    result, _ = measure()
    parts = result.profile
    took = [m.start_s + sum(m.iterations_s) + m.save_s for m in result.measurements]
    model = [
        parts.start_s.mean + len(m.iterations_s) * parts.iteration_s[m.slots].mean + parts.save_s.mean
        for m in result.measurements
    ]
    assert sum(model) == pytest.approx(sum(took), rel=0.01)


def test_the_machine_is_kept_as_full_as_the_run_will():
    _, launcher = measure(slots=4, sizes=(1, 2, 4))
    most = {}
    for size, trials in launcher.together:
        most[size] = max(most.get(size, 0), len(trials))
    assert most == {1: 4, 2: 2, 4: 1}


def test_one_configuration_alone_still_fills_the_machine():
    _, launcher = measure(slots=4, sizes=(1,), configs=[{}])
    assert max(len(trials) for _, trials in launcher.together) == 4


def test_restarts_come_from_the_checkpoint_that_was_saved():
    _, launcher = measure()
    restored = [run for run in launcher.runs if run.from_iteration]
    assert restored
    assert all(run.checkpoint == run.storage / f"trial-{run.trial:04d}" / "checkpoint" for run in restored)
    assert all(run.checkpoint is None for run in launcher.runs if not run.from_iteration)
    assert all(run.to_iteration <= run.max_iterations for run in launcher.runs)


def test_the_spread_between_configurations_is_found_and_not_confused_with_noise():
    def by_config(run, i):
        return run.config["width"] / 72 / len(run.slots) ** 0.5

    result, _ = measure(Truth(iteration_s=by_config))
    widths = [config["width"] for config in CONFIGS]
    mean = sum(widths) / len(widths)
    spread = math.sqrt(sum((w - mean) ** 2 for w in widths) / (len(widths) - 1)) / mean
    assert result.profile.trial_cv == pytest.approx(spread, rel=0.05)
    assert result.profile.iteration_s[1].mean == pytest.approx(mean / 72)

    def noise(run, i):
        return 0.3 * (1 + 0.2 * math.sin(1e4 * (run.trial + 10 * i)))

    result, _ = measure(Truth(iteration_s=noise))
    assert 0.1 < result.profile.iteration_s[1].std / result.profile.iteration_s[1].mean < 0.2
    assert result.profile.trial_cv < 0.05


def test_sizes_are_compared_on_the_same_configurations():
    def by_config(run, i):
        return (1.0 if run.config["width"] <= 32 else 10.0) / len(run.slots)

    result, _ = measure(Truth(iteration_s=by_config), budget_s=70)
    assert result.profile.iteration_s[1].mean == pytest.approx(2 * result.profile.iteration_s[2].mean)


def test_sizes_between_and_beyond_are_predicted_where_the_fit_vouches():
    result, _ = measure(slots=4, sizes=(1, 2, 4))
    assert {1, 2, 3, 4, 6} <= set(result.profile.slots)
    assert max(result.profile.slots) <= 8
    assert result.profile.iteration_s[3].mean == pytest.approx(0.3 * 0.5, rel=0.01)
    assert result.fit.largest_slots == max(result.profile.slots)
    assert result.fit.largest_residual < 0.01


def test_two_sizes_are_not_extrapolated():
    result, _ = measure(sizes=(1, 2))
    assert result.profile.slots == (1, 2)
    assert result.fit.largest_slots == 2


# Time


@pytest.mark.parametrize("budget_s", [10, 30, 100, 300])
@pytest.mark.parametrize("scale", [0.01, 1.0, 4.0])
def test_the_budget_is_kept(budget_s, scale):
    truth = Truth(iteration_s=lambda run, i: 0.3 * scale * (0.25 + 0.75 / len(run.slots)))
    result, launcher = measure(truth, budget_s=budget_s)
    assert result.seconds <= budget_s
    assert launcher.clock.now() <= budget_s
    assert result.profile.slots == (1, 2)


def test_it_ends_when_there_is_nothing_left_to_learn():
    result, _ = measure(budget_s=3600)
    assert result.seconds < 120
    assert {m.config for m in result.measurements} == set(range(len(CONFIGS)))


def test_more_time_buys_more_configurations():
    short, _ = measure(budget_s=15)
    long, _ = measure(budget_s=60)
    assert len({m.config for m in short.measurements}) < len({m.config for m in long.measurements})


def test_a_budget_for_one_configuration_only_is_warned_of():
    result, _ = measure(slots=1, sizes=(1,), budget_s=4)
    assert result.profile.trial_cv == 0
    assert any("only one configuration" in warning for warning in result.warnings)


def test_an_iteration_longer_than_the_budget_is_refused_early():
    with pytest.raises(UnusableProfile, match=r"one iteration takes 200 s .* budget is 300 s; raise budget_s"):
        measure(Truth(iteration_s=lambda run, i: 200.0, warm_up_s=0), budget_s=300)


def test_a_budget_too_small_for_all_sizes_says_how_much_it_would_take():
    truth = Truth(iteration_s=lambda run, i: 80.0 / len(run.slots), warm_up_s=0)
    with pytest.raises(UnusableProfile, match=r"measuring 1 and 2 slots takes at least 3\d\d s, but the budget"):
        measure(truth, budget_s=290)


@pytest.mark.parametrize(
    ("truth", "fact"),
    [
        (Truth(hangs=lambda run: True), "no iteration ended on 1 slot within the budget of 60 s"),
        (Truth(start_s=1e9), "did not reach its first iteration on 1 slot within the budget of 60 s"),
    ],
)
def test_a_function_that_hangs_is_ended_at_the_budget(truth, fact):
    with pytest.raises(UnusableProfile, match=fact):
        measure(truth, budget_s=60)


@pytest.mark.parametrize("longest", [3, 4, 5, 9, 19, 20, 200])
def test_a_function_that_ends_by_itself_is_not_asked_for_more_than_it_has(longest):
    truth = Truth(fails=lambda run: "nothing is left" if run.to_iteration > longest else None)
    result, launcher = measure(truth, longest=longest)
    assert result.warnings == ()
    assert result.profile.iteration_s[2].mean == pytest.approx(0.3 * 0.625)
    asked = max(run.to_iteration for run in launcher.runs)
    assert asked <= longest
    assert asked == longest or longest > 4


@pytest.mark.parametrize("longest", [0, 1, 2])
def test_a_function_that_is_too_short_to_be_measured_is_refused(longest):
    with pytest.raises(InvalidInput, match=f"must have at least 3 iterations to be measured, got {longest}"):
        measure(longest=longest)


# Functions that misbehave


def test_a_function_that_raises_is_told_with_its_configuration():
    with pytest.raises(TrialFailure, match=r"ValueError: boom \(while profiling on 1 slot with configuration"):
        measure(Truth(fails=lambda run: "ValueError: boom"))


def test_a_single_bad_configuration_is_left_out_with_a_warning():
    truth = Truth(fails=lambda run: "MemoryError: width" if run.config["width"] == 32 else None)
    for slots in (1, 2):
        result, _ = measure(truth, slots=slots, sizes=(1,))
        assert {m.config for m in result.measurements} == set(range(len(CONFIGS))) - {1}
        assert [w for w in result.warnings if "MemoryError: width" in w and "'width': 32" in w]


def test_a_size_that_fails_where_the_smallest_works_is_left_out():
    truth = Truth(fails=lambda run: "RuntimeError: no buffers" if len(run.slots) == 2 else None)
    result, _ = measure(truth, slots=4, sizes=(1, 2, 4))
    assert 2 not in {m.slots for m in result.measurements}
    assert {1, 4} <= set(result.profile.slots)
    assert result.warnings == ("2 slots per trial will not be planned with: RuntimeError: no buffers",)


def test_a_restore_that_fails_is_found_before_the_run():
    truth = Truth(fails=lambda run: "UnusableCheckpoint: no model" if run.from_iteration else None)
    with pytest.raises(TrialFailure, match="UnusableCheckpoint: no model"):
        measure(truth)


def test_scores_must_come_and_be_numbers():
    with pytest.raises(UnusableProfile, match=r"without a score; call trial\.report"):
        measure(Truth(score=lambda run: None))
    with pytest.raises(UnusableProfile, match="every score that the function reported is NaN"):
        measure(Truth(score=lambda run: math.nan))
    result, _ = measure(Truth(score=lambda run: math.nan if run.config["lr"] == 0.1 else 0.5))
    assert result.warnings == ()


def test_a_configuration_that_is_not_read_is_an_error_and_a_key_a_warning():
    with pytest.raises(UnusableProfile, match=r"reads nothing of its configuration \(lr and width\)"):
        measure(Truth(keys=()))
    result, _ = measure(Truth(keys=("lr",)))
    assert len(result.warnings) == 1
    assert "never read width" in result.warnings[0]
    result, _ = measure(Truth(keys=()), configs=[{}])
    assert result.warnings == ()


def test_remarks_of_the_function_are_passed_on_once():
    result, _ = measure(Truth(remark="BatchNorm sees a rank's share only"))
    assert result.warnings == ("BatchNorm sees a rank's share only",)


def test_a_cost_that_drifts_is_warned_of():
    result, _ = measure(Truth(iteration_s=lambda run, i: 0.1 * (1 + 0.2 * i)))
    assert len(result.warnings) == 1
    assert "cost of an iteration grows by about" in result.warnings[0]


def test_a_cost_that_jumps_about_is_warned_of():
    jumpy = [
        Measurement(
            slots=1, config=c, from_iteration=0, start_s=1, restore_s=0, save_s=0, checkpoint_bytes=0,
            iterations_s=(1.0, 1.0, 3.0, 1.0, 3.0, 3.0, 1.0),
        )
        for c in range(2)
    ]  # fmt: skip
    assert "varies by" in steadiness_warnings(jumpy)[0]
    assert steadiness_warnings([]) == ()


def test_an_interrupted_profiling_leaves_nothing(tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(Truth(at_restart=interrupt), tmp_path=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_impossible_requests_are_refused():
    with pytest.raises(InvalidInput, match="at most the 2 slots that there are, got 4"):
        measure(sizes=(1, 4))
    with pytest.raises(InvalidInput, match="positive integer"):
        measure(sizes=(0,))
    with pytest.raises(InvalidInput, match="budget_s"):
        measure(budget_s=0)
    with pytest.raises(InvalidInput, match="configs"):
        measure(configs=[])


def test_a_summary_of_one_start_has_no_spread():
    one = Measurement(
        slots=1, config=0, from_iteration=0, start_s=1.0, restore_s=0.0, save_s=0.5, checkpoint_bytes=0,
        iterations_s=(3.0, 2.0),
    )  # fmt: skip
    scaling, fit = summarise([one], (1,), sync_s=0.25)
    assert scaling.iteration_s[1] == Latency(mean=2.0)
    assert scaling.start_s == Latency(mean=2.0)
    assert scaling.trial_cv == 0.0
    assert scaling.run_cv == BETWEEN_RUNS_CV
    assert scaling.sync_s == 0.25
    assert fit is None


def of_config(config, *iterations_s):
    return Measurement(
        slots=1, config=config, from_iteration=0, start_s=1.0, restore_s=0.0, save_s=0.5, checkpoint_bytes=0,
        iterations_s=(iterations_s[0], *iterations_s),
    )  # fmt: skip


def test_means_over_few_configurations_are_less_sure_than_over_many():
    few, many = (
        summarise([of_config(j, 9.0 + 2 * (j % 2), 9.0 + 2 * (j % 2)) for j in range(k)], (1,), sync_s=0.0)[0]
        for k in (2, 8)
    )
    # Standard error of the mean of two values 9 and 11, over 10, widened as Student's distribution with one degree of
    # freedom is at 0.9: 3.0777 / 1.2816.
    assert few.run_cv == pytest.approx(math.hypot(0.1 * 3.0777 / 1.2816, BETWEEN_RUNS_CV), rel=1e-4)
    # And of eight: a variance of 8/7 around them, with seven degrees: 1.4149 / 1.2816.
    assert many.run_cv == pytest.approx(math.hypot(math.sqrt(0.01 / 7) * 1.4149 / 1.2816, BETWEEN_RUNS_CV), rel=1e-4)


def test_starts_of_one_configuration_that_differ_make_its_mean_unsure():
    steady, unsteady = (
        summarise([of_config(0, 10.0, 10.0), of_config(0, 10.0 + off, 10.0 + off)], (1,), sync_s=0.0)[0]
        for off in (0.0, 4.0)
    )
    assert steady.run_cv == BETWEEN_RUNS_CV
    assert unsteady.run_cv > 0.1


def train_for_real(config, trial):
    saved = trial.load()
    total = int((saved / "total").read_text()) if saved else 0
    for _ in trial.iterations():
        total += sum(range(config["work"]))
        trial.report(total)
        if trial.save_due:
            with trial.save() as folder:
                (folder / "total").write_text(str(total))


def test_a_real_function_is_measured_by_a_real_launcher(tmp_path):
    machine = [Slot(node=f"n{i}", index=0) for i in range(2)]
    with ProcessLauncher(Target.of(train_for_real)) as launcher:
        result = profile(
            launcher,
            SystemClock(),
            configs=[{"work": 1000}, {"work": 2000}],
            slots=machine,
            sizes=(1, 2),
            budget_s=60,
            folder=tmp_path,
        )
    assert result.profile.slots == (1, 2)
    assert {(m.slots, m.config, m.from_iteration > 0) for m in result.measurements} == {
        (w, j, restored) for w in (1, 2) for j in (0, 1) for restored in (False, True)
    }
    assert all(m.start_s > m.restore_s >= 0 for m in result.measurements)
    assert all(m.checkpoint_bytes > 0 for m in result.measurements)
    assert result.seconds < 60
    assert list(tmp_path.iterdir()) == []


def test_a_real_function_that_raises_is_named_with_its_traceback():
    def train(config, trial):
        raise ValueError("boom")

    with ProcessLauncher(Target.of(train)) as launcher, pytest.raises(TrialFailure, match="ValueError: boom") as caught:
        profile(launcher, SystemClock(), configs=[{"lr": 1}], slots=[Slot(node="n", index=0)], sizes=(1,))
    assert "in train" in caught.value.traceback
    assert "while profiling on 1 slot with configuration {'lr': 1}" in caught.value.cause


def test_disturbances_that_last_make_a_prediction_as_vague_as_they_are():
    starts = [
        Measurement(
            slots=1, config=0, from_iteration=4 * n, start_s=0.1, restore_s=0, save_s=0.1, checkpoint_bytes=0,
            iterations_s=(1.0,) + (seconds,) * 4,
        )
        for n, seconds in enumerate((0.9, 1.1, 0.9, 1.1))
    ]  # fmt: skip
    scaling, _ = summarise(starts, (1,), sync_s=0)
    mean_of_a_start = scaling.iteration_s[1].std / math.sqrt(4)
    assert mean_of_a_start == pytest.approx(math.sqrt(4 * 0.1**2 / 3))
