"""The rung as one rank meets it, on a line that answers as it is told to."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
from rb_optuna.gate import Gate, StageSuspended
from rb_optuna.messages import AtRung, Follow, Order, Passed, Report, Verdict

from rb_core.ports import Slot, TrialRun
from rb_core.trial import Iterated, Ready


class FakeLine:
    """Records what is sent, and answers questions in order."""

    def __init__(self, *answers):
        self.sent = []
        self.answers = deque(answers)
        self.stop = False

    def send(self, message):
        self.sent.append(message)

    def ask(self, message):
        self.sent.append(message)
        return self.answers.popleft()

    def stop_requested(self):
        return self.stop

    def of(self, kind):
        return [message for message in self.sent if isinstance(message, kind)]

    def iterations(self):
        return [message.iterations for message in self.of(Iterated)]


def go_on(to):
    return Verdict(order=Order.CONTINUE, to_iteration=to)


PRUNE = Verdict(order=Order.PRUNE)
SUSPEND = Verdict(order=Order.SUSPEND)


def gate(line, *, to=3, end=9, since=0, ranks=1, rank=0, first=None, last=None):
    run = TrialRun(
        trial=0,
        stage=0,
        config={},
        slots=tuple(Slot(node="n", index=index) for index in range(ranks)),
        from_iteration=since,
        to_iteration=to,
        max_iterations=end,
        checkpoint=None,
        storage=Path(),
        logs=Path(),
    )
    made = Gate(line, run, rank=rank, first_step=first, last_step=last)
    made.saved = []
    made.save = made.saved.append
    return made


def step(made, number):
    """One epoch of an objective: report, and ask."""
    made.report(0.5, number)
    return made.should_prune()


@pytest.mark.parametrize("zero", [0, 1])
def test_the_rung_is_where_the_stage_ends_whether_steps_count_from_0_or_from_1(zero):
    line = FakeLine(PRUNE)
    made = gate(line, to=3)
    assert [step(made, zero + n) for n in range(3)] == [False, False, True]
    assert line.of(AtRung) == [AtRung(iterations=3)]
    assert line.iterations() == [1, 2, 3]
    assert [(m.step, m.iterations, m.stored) for m in line.of(Report)] == [(zero + n, n + 1, False) for n in range(3)]


def test_a_first_report_beyond_step_1_counts_as_it_says():
    line = FakeLine(PRUNE)
    assert [step(gate(line, to=5), 5)] == [True]
    assert line.of(AtRung) == [AtRung(iterations=5)]


def test_at_a_rung_it_saves_before_it_asks_and_goes_on_to_the_next_one():
    order = []
    line = FakeLine(go_on(6), PRUNE)
    made = gate(line, to=3)
    made.save = lambda done: order.append(("save", done))
    line.ask = lambda message: (order.append(("ask", message.iterations)), line.answers.popleft())[1]
    assert [step(made, n) for n in range(6)] == [False] * 5 + [True]
    assert order == [("save", 3), ("ask", 3), ("save", 6), ("ask", 6)]


def test_one_report_passes_several_rungs():
    line = FakeLine(go_on(2), go_on(4), go_on(9))
    made = gate(line, to=1)
    assert step(made, 5) is False
    # The last iteration is told anew of each stage that the report ends.
    assert [type(message) for message in line.sent] == [
        Ready, Iterated, Report, AtRung, Iterated, AtRung, Iterated, AtRung
    ]  # fmt: skip
    assert line.iterations() == [5, 5, 5]
    assert made.saved == [5, 5, 5]


def test_a_second_of_several_rungs_prunes():
    made = gate(FakeLine(go_on(2), PRUNE), to=1)
    assert step(made, 3) is True


def test_there_is_no_rung_at_the_end_and_beyond():
    line = FakeLine()
    made = gate(line, to=3, end=3)
    assert [step(made, n) for n in range(6)] == [False] * 6
    assert line.of(AtRung) == []


def test_who_asks_before_it_reports_is_not_pruned_and_not_held_up():
    line = FakeLine()
    made = gate(line, to=1, since=2)
    line.stop = True
    assert made.should_prune() is False
    assert line.sent == []


def test_who_asks_twice_at_a_rung_that_it_passed_is_not_held_up():
    line = FakeLine(go_on(9))
    made = gate(line, to=1)
    assert [step(made, 1), made.should_prune(), made.should_prune()] == [False] * 3
    assert len(line.of(AtRung)) == 1


def test_who_never_asks_is_never_held_up():
    line = FakeLine()
    made = gate(line, to=1)
    for number in range(9):
        made.report(0.5, number)
    assert line.of(AtRung) == []
    assert line.iterations() == list(range(1, 10))


def test_suspended_at_a_rung_the_objective_is_unwound_past_its_except_exception():
    made = gate(FakeLine(SUSPEND), to=1)

    def objective():
        try:
            step(made, 0)
        except Exception:
            return "caught"
        return "went on"

    with pytest.raises(StageSuspended):
        objective()
    assert made.saved == [1]


def test_asked_to_stop_it_saves_and_is_unwound_between_rungs():
    line = FakeLine()
    made = gate(line, to=9)
    assert step(made, 0) is False
    line.stop = True
    with pytest.raises(StageSuspended):
        step(made, 1)
    assert made.saved == [2]
    assert line.of(AtRung) == []


def test_who_has_done_all_there_is_comes_to_its_end_although_it_is_asked_to_stop():
    line = FakeLine()
    made = gate(line, to=3, end=3)
    line.stop = True
    for number in range(2):
        made.report(0.5, number)
    assert step(made, 2) is False
    assert made.saved == []


def test_every_report_is_followed_by_what_is_to_be_told_with_it():
    line = FakeLine()
    made = gate(line, to=9)
    told = []
    made.reported = lambda: told.append(type(line.sent[-1]))
    step(made, 0)
    step(made, 1)
    assert told == [Report, Report]


# Starts after the first one


def test_a_start_from_a_checkpoint_counts_on():
    line = FakeLine(PRUNE)
    made = gate(line, since=3, to=5, first=0, last=2)
    assert [step(made, n) for n in (3, 4)] == [False, True]
    assert line.iterations() == [4, 5]


def test_a_start_from_a_checkpoint_at_its_rung_asks_at_once():
    line = FakeLine(PRUNE)
    made = gate(line, since=3, to=3, first=0, last=2)
    assert made.should_prune() is True
    assert made.saved == [3]


def test_an_objective_that_is_run_again_passes_the_rungs_of_old():
    line = FakeLine(PRUNE)
    made = gate(line, since=0, to=9, end=27, first=1, last=3)
    assert [step(made, n) for n in range(1, 10)] == [False] * 8 + [True]
    assert line.of(AtRung) == [AtRung(iterations=9)]
    assert line.iterations() == list(range(1, 10))


def test_a_step_that_is_reported_again_does_not_count_again():
    line = FakeLine()
    made = gate(line, to=9)
    for number in (0, 1, 1, 0):
        step(made, number)
    assert line.iterations() == [1, 2]
    assert made.done == 2


def test_where_the_first_step_is_known_a_start_does_not_take_its_own_first_for_it():
    line = FakeLine()
    step(gate(line, since=1, to=9, first=0, last=0), 1)
    assert line.iterations() == [2]


# Being ready


def test_it_is_ready_once_by_itself_or_when_it_says_so():
    line = FakeLine()
    made = gate(line, to=9)
    step(made, 0)
    step(made, 1)
    assert [type(message) for message in line.sent[:3]] == [Ready, Iterated, Report]
    assert len(line.of(Ready)) == 1
    early = FakeLine()
    told = gate(early, to=9)
    told.begin(0.25)
    step(told, 0)
    assert early.of(Ready) == [Ready(restore_s=0.25)]


def test_the_length_of_an_iteration_is_shared_by_those_of_one_report():
    line = FakeLine()
    made = gate(line, to=9)
    made.begin()
    made.report(0.5, 4)
    (told,) = line.of(Iterated)
    assert told.iterations == 4
    assert 0 <= told.seconds < 60


def test_what_the_study_has_already_is_said():
    line = FakeLine()
    gate(line, to=9).report(0.5, 0, stored=True)
    assert [message.stored for message in line.of(Report)] == [True]


@pytest.mark.parametrize(("iterations", "near"), [(2, False), (3, True), (4, True)])
def test_how_near_a_rung_is(iterations, near):
    assert gate(FakeLine(), to=3).near(iterations) is near


# Several ranks


def test_rank_0_of_several_says_where_nothing_was_decided():
    line = FakeLine(go_on(9))
    made = gate(line, to=2, ranks=2)
    assert [step(made, n) for n in range(3)] == [False] * 3
    assert [type(m) for m in line.sent if isinstance(m, AtRung | Passed)] == [Passed, AtRung, Passed, Passed]


def test_rank_0_of_several_says_so_also_before_its_first_report():
    line = FakeLine()
    assert gate(line, to=2, ranks=2).should_prune() is False
    assert line.sent == [Passed()]


def test_a_single_rank_does_not_say_so():
    line = FakeLine()
    step(gate(line, to=9), 0)
    assert line.of(Passed) == []


def test_other_ranks_get_the_answers_of_rank_0_by_the_number_of_the_question():
    line = FakeLine(go_on(9), go_on(9), PRUNE)
    made = gate(line, ranks=2, rank=1)
    assert [made.should_prune() for _ in range(3)] == [False, False, True]
    assert line.sent == [Follow(call=0), Follow(call=1), Follow(call=2)]
    assert made.saved == []


def test_other_ranks_are_suspended_with_rank_0():
    made = gate(FakeLine(SUSPEND), ranks=2, rank=1)
    with pytest.raises(StageSuspended):
        made.should_prune()


def test_other_ranks_are_not_ready_for_all():
    line = FakeLine()
    gate(line, ranks=2, rank=1).begin()
    assert line.sent == []


@pytest.mark.parametrize("rank", [0, 1])
def test_an_answer_that_is_no_verdict_is_refused(rank):
    made = gate(FakeLine(Passed()), to=1, ranks=2, rank=rank)
    if rank == 0:
        made.report(0.5, 0)
    with pytest.raises(TypeError, match="a verdict was due"):
        made.should_prune()
