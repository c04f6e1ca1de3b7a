from pathlib import Path

from engine_world import plan, problem

from rb_core.engine.request import RunRequest

TWO = [[(2, 10), (1, 20)], [(1, 40)]]


def request(wanted, chosen, **changes):
    configs = ({},) * wanted.experiment.trials
    return RunRequest(run="r", problem=wanted, plan=chosen, configs=configs, storage=Path(), logs=Path(), **changes)


def test_the_problem_is_recorded_in_plain_values():
    made = request(problem(TWO), plan([(2, 1), (1, 2)], [(1, 1)]), record={"stages": ((2, 10),), 1: Path("x")})
    assert made.plain_record == {"stages": [[2, 10]], "1": "PosixPath('x')"}
