from pathlib import Path

from engine_world import plan, problem

from rb_core.engine.request import RunRequest
from rb_core.plan import ChainOrder

TWO = [[(2, 10), (1, 20)], [(1, 40)]]


def request(wanted, chosen, **changes):
    configs = ({},) * wanted.experiment.trials
    return RunRequest(run="r", problem=wanted, plan=chosen, configs=configs, storage=Path(), logs=Path(), **changes)


def test_the_plan_of_one_chain_is_recorded_as_its_stages():
    wanted = problem([[(2, 10), (1, 20)]])
    assert request(wanted, plan([(2, 1), (1, 2)])).plan_record == {
        "stages": [
            {"trials": 2, "iterations": 10, "instance_type": "a", "nodes": 2, "slots_per_trial": 1},
            {"trials": 1, "iterations": 20, "instance_type": "a", "nodes": 1, "slots_per_trial": 2},
        ]
    }


def test_several_chains_are_recorded_with_their_order():
    record = request(problem(TWO), plan([(2, 1), (1, 2)], [(1, 1)], order=ChainOrder.PARALLEL)).plan_record
    assert [len(chain["stages"]) for chain in record["chains"]] == [2, 1]
    assert record["order"] == "parallel"


def test_the_problem_is_recorded_in_plain_values():
    made = request(problem(TWO), plan([(2, 1), (1, 2)], [(1, 1)]), record={"stages": ((2, 10),), 1: Path("x")})
    assert made.plain_record == {"stages": [[2, 10]], "1": "PosixPath('x')"}
