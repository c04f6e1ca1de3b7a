"""What is trained: a training function, named by file or module, or sent along by value."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.oneline import first_line

KEY = "train.target"
"""The key that every error about a target names."""

TrainingFunction = Callable[[dict[str, Any], Any], Any]
"""``def train(config: dict, trial: rb_core.Trial)``; what it returns is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A reference to a training function that any process of this machine can follow.

    Attributes:
        name: how it is shown: ``train.py:train`` or ``package.module:train``.
        function: the function's name within the file or module; empty for one sent by value.
        file: the file that holds it, if it was named by file.
        module: the module that holds it, if it was named by module.
        folder: put first on the import path: the file's own folder, or the one that a module is looked for in.
        by_value: the function as cloudpickle wrote it, if it is sent along.
    """

    name: str
    function: str = ""
    file: Path | None = None
    module: str = ""
    folder: Path | None = None
    by_value: bytes = field(default=b"", repr=False)

    @classmethod
    def parse(cls, text: str, base: Path | None = None) -> Target:
        """Read ``FILE.py:FUNCTION`` or ``package.module:FUNCTION``.

        Looks into a file (its syntax, its top-level names) but imports and runs nothing.

        Args:
            text: the reference.
            base: folder that a relative file is relative to, and that a module may lie in; the current one when
                None.

        Raises:
            InvalidInput: not of either form, no such file, a syntax error, or no such function in the file.
        """
        place, colon, function = text.rpartition(":")
        if not colon or not place or not function.isidentifier():
            raise InvalidInput(KEY, f"must be FILE.py:FUNCTION or package.module:FUNCTION, got {text!r}")
        if not place.endswith(".py"):
            if not all(part.isidentifier() for part in place.split(".")):
                raise InvalidInput(
                    KEY, f"must be FILE.py:FUNCTION or package.module:FUNCTION, got {text!r}; a file ends with .py"
                )
            return cls(name=text, module=place, function=function, folder=(base or Path.cwd()).resolve())
        file = ((base or Path.cwd()) / place).resolve()
        _check_source(file, function)
        return cls(name=text, file=file, function=function, folder=file.parent)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Target:
        """A function object: one of ``__main__``, of a notebook cell, or a closure is sent by value.

        Raises:
            InvalidInput: it is not callable, its signature does not fit, or it cannot be sent to another process.
        """
        import cloudpickle

        name = getattr(function, "__qualname__", type(function).__qualname__)
        check_callable(function, name)
        try:
            return cls(name=name, by_value=cloudpickle.dumps(function))
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidInput(
                KEY,
                f"{name} cannot be sent to other processes ({_line(error)}); let it make what it needs itself "
                "rather than use it from outside, or name it as FILE.py:FUNCTION",
            ) from error

    def load(self) -> TrainingFunction:
        """Import what holds the function, and check it. Meant for the processes that train.

        Raises:
            InvalidInput: the import fails, there is no such function, or it cannot be called with
                (config, trial). The message holds the error's last line in the user's own code.
        """
        if self.folder is not None and str(self.folder) not in sys.path:
            sys.path.insert(0, str(self.folder))
        try:
            if self.by_value:
                function = pickle.loads(self.by_value)
            else:
                holder = importlib.import_module(self.module) if self.file is None else _import_file(self.file)
        except (Exception, SystemExit) as error:
            raise InvalidInput(
                KEY,
                f"{self.name} could not be imported: {_line(error)}{_where(error)}; mend it",
            ) from error
        if not self.by_value:
            if not hasattr(holder, self.function):
                raise InvalidInput(KEY, _missing(self.function, holder.__name__, _functions(vars(holder))))
            function = getattr(holder, self.function)
        check_callable(function, self.name)
        return function  # type: ignore[no-any-return]


def check_callable(function: object, name: str) -> None:
    """Raise `InvalidInput` unless `function` can be called as ``function(config, trial)``."""
    if not callable(function):
        raise InvalidInput(KEY, f"{name} must be a function, got a {type(function).__name__}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # built-in: only a call can tell
    try:
        signature.bind({}, None)
    except TypeError as error:
        raise InvalidInput(
            KEY, f"{name} must accept (config, trial), but its signature is {signature}: {error}"
        ) from None
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidInput(KEY, f"{name} must be a plain function, not a generator or a coroutine")


def _check_source(file: Path, function: str) -> None:
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except OSError as error:
        raise InvalidInput(KEY, f"file {file} could not be read: {error.strerror}; name a file that can be") from None
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise InvalidInput(KEY, f"file {file} is not valid Python: {error.args[0]}{line}; mend it there") from None
    names = set(_bound(tree))
    if function not in names and "*" not in names:
        functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
        raise InvalidInput(KEY, _missing(function, str(file), functions))


def _bound(node: ast.AST) -> Iterator[str]:
    """Every name that module-level code binds, inside ``if`` and ``try`` too; ``*`` for a star import."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child.name
            continue
        if isinstance(child, ast.alias):
            yield (child.asname or child.name).split(".")[0]
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        yield from _bound(child)


def _functions(namespace: dict[str, Any]) -> list[str]:
    return [n for n, v in namespace.items() if inspect.isfunction(v) and not n.startswith("_")]


def _missing(function: str, place: str, functions: list[str]) -> str:
    there = f"; its functions are {', '.join(sorted(functions))}" if functions else "; it holds no functions"
    return f"there is no {function!r} in {place}{there}"


def _import_file(file: Path) -> ModuleType:
    """Import a file under its own name; under another one where that is taken."""
    name = file.stem
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(file):
        return loaded
    if loaded is not None or name in sys.stdlib_module_names or not name.isidentifier():
        name = f"target_{name}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _line(error: BaseException) -> str:
    text = first_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _where(error: BaseException) -> str:
    """The last frame that is neither ours nor the import system's, as `` (train.py, line 3)``."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__
        and not frame.filename.startswith("<frozen")
        and Path(importlib.__file__).parent not in Path(frame.filename).parents
    ]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
