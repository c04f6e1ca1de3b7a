"""Every error says what to do next: read from the source of all packages, and as the command shows it."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache

import pytest
from source_tree import Module, modules

from rb_core import errors
from rb_core.errors import InvalidInput, NoAnswer, RubberBandError, TrialFailure
from rb_plugins import show

GIVEN = "{}"
"""Stands for what is only known when the message is made."""

LIMITS = ("must ", "is required", "pip install")
"""Words of what is its own remedy: an input is to be made so, a package is to be installed."""

LAST = {"InvalidInput": 1, "PlanVeto": 1}
"""Which argument is the message, where it is not the first."""

BUILT = {"BudgetExceeded", "TrialFailure", "LeakedNodes", "UnreadyRun", "UnsoundSetup", "UncollectedEstate"}
"""Errors that put their message together themselves, from parts that hold a remedy."""


@cache
def everything() -> tuple[Module, ...]:
    return tuple(modules())


@cache
def classes() -> dict[str, type[RubberBandError]]:
    """The errors of rb_core.errors, and those that other modules derive from them, by name."""
    found = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    known = {name: kind for name, kind in found.items() if issubclass(kind, RubberBandError)}
    for module in everything():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & known.keys():
                known[node.name] = getattr(importlib.import_module(module.name), node.name)
    return known


def text(node: ast.expr) -> str:
    """A message as far as the source has it."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(text(value) for value in values)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return text(left) + text(right)
        case ast.IfExp(body=body, orelse=orelse):
            return min(text(body), text(orelse), key=len)
    return GIVEN


def advises(message: str) -> bool:
    """Whether a message names a limit to keep to, or ends with a clause of its own after a semicolon."""
    last = message.rpartition("\n")[2]
    return any(word in last for word in LIMITS) or bool(last.rpartition("; ")[0]) or last.startswith(GIVEN)


def silent(module: Module, known: dict[str, type[RubberBandError]]) -> Iterator[str]:
    """Errors of a module that do not say what to do."""
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known):
            continue
        name, place = node.func.id, LAST.get(node.func.id, 0)
        if name in BUILT or known[name].remedy or len(node.args) <= place:
            continue
        message = text(node.args[place])
        if not advises(message):
            yield f"{module.name}, line {node.lineno}: {name}: {message}"


def test_every_error_says_what_to_do_next():
    known = classes()
    assert [said for module in everything() for said in silent(module, known)] == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('raise InvalidInput("key", f"cannot be read: {error}")', 1),
        ('raise InvalidInput("key", f"cannot be read: {error}; name another file")', 0),
        ('raise InvalidInput("key", f"must be 1, got {value}")', 0),
        ('raise RubberBandError("it is gone" + f" ({why})")', 1),
        ('raise RubberBandError("gone; begin anew" if one else "gone")', 1),
        ('raise RubberBandError(f"gone; begin anew:\\n{output}")', 0),
        ('raise RubberBandError(f"gone; begin anew\\nfor {reason}")', 1),
        ('raise NoAnswer(f"{action}: lost")', 0),
    ],
)
def test_an_error_that_leaves_the_reader_alone_is_seen(source, count):
    assert len(list(silent(Module("rb_core.new", source), classes()))) == count


def test_the_last_line_is_the_remedy_even_below_what_a_trial_printed(capsys):
    show.error(TrialFailure(trial=3, rank=0, cause="ValueError: boom", output_tail=("epoch 1; loss nan", "done")))
    assert capsys.readouterr().err.splitlines()[-1].strip() == TrialFailure.remedy


def test_a_remedy_is_not_told_twice(capsys):
    show.error(NoAnswer("ec2:RunInstances: connection lost"))
    show.error(NoAnswer("ec2:RunInstances: connection lost; wait a minute"))
    show.error(InvalidInput("key", "must be 1"))
    assert capsys.readouterr().err.splitlines() == [
        "error: ec2:RunInstances: connection lost",
        f"  {NoAnswer.remedy}",
        "error: ec2:RunInstances: connection lost; wait a minute",
        "error: key: must be 1",
    ]
