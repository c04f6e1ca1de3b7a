from pathlib import Path

from engine_world import World, plan, problem

from rb_core.engine.request import RunRequest
from rb_core.events import RunStarted, Warned

TWO = [[(2, 10), (1, 20)], [(1, 40)]]


def request(wanted, chosen, **changes):
    configs = ({},) * wanted.experiment.trials
    return RunRequest(run="r", problem=wanted, plan=chosen, configs=configs, storage=Path(), logs=Path(), **changes)


def test_the_problem_is_recorded_in_plain_values():
    made = request(problem(TWO), plan([(2, 1), (1, 2)], [(1, 1)]), record={"stages": ((2, 10),), 1: Path("x")})
    assert made.plain_record == {"stages": [[2, 10]], "1": "PosixPath('x')"}


def test_what_was_warned_of_before_a_run_stands_at_the_beginning_of_its_log():
    world = World()
    state = world.run(problem(), plan([(2, 1), (2, 2), (2, 4)]), warnings=("prices are old",))
    assert state.warnings[0] == "prices are old"
    assert [type(event) for event in world.history[:2]] == [RunStarted, Warned]
