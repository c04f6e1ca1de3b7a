"""What a later process needs to go on with a run, beside its log: the file `request.json` in the run's directory."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.events import SCHEMA
from rb_core.plainjson import plain
from rb_core.space import Space
from rb_core.target import KEY, Target
from rb_plugins.config.shape import shaped
from rb_plugins.config.source import naming, read_table
from rb_plugins.forecast import DEFAULT_PLANNER
from rb_plugins.rundir import RunDirectory
from rb_plugins.storing import place
from rb_plugins.tuning import DEFAULT_CHECKPOINT_EVERY_S, AtDeadline, Mode, Tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRecord:
    """What is trained, as it is compared with an experiment file.

    Attributes:
        target: the training function, in words.
        metric: name of the score.
        mode: ``max`` or ``min``.
        seed: seed of everything.
    """

    target: str
    metric: str
    mode: Mode
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRecord:
    """Where a later process finds the training function.

    Attributes:
        function: its name there.
        file: the file that holds it; empty where it is named by module.
        module: the module that holds it; empty where it is named by file.
        folder: put first on the import path.
        source: the file whose contents are known; empty where none could be found.
        sha256: of that file, in hexadecimal.
    """

    function: str
    file: str = ""
    module: str = ""
    folder: str = ""
    source: str = ""
    sha256: str = ""

    @classmethod
    def of(cls, target: Target) -> FunctionRecord | None:
        """The record of a named target; None of one that is sent by value."""
        if not target.function:
            return None
        source = source_of(target)
        return cls(
            function=target.function,
            file="" if target.file is None else str(target.file),
            module=target.module,
            folder="" if target.folder is None else str(target.folder),
            source="" if source is None else str(source),
            sha256="" if source is None else _digest(source),
        )

    def target(self, name: str) -> Target:
        """The target, once its file is known to be as it was.

        Args:
            name: how it is shown.

        Raises:
            InvalidInput: the file has changed, or is gone.
        """
        if self.source:
            try:
                changed = _digest(Path(self.source)) != self.sha256
            except OSError as error:
                raise InvalidInput(
                    KEY, f"{self.source} cannot be read any more ({error.strerror}); restore it, or start a new run"
                ) from None
            if changed:
                raise InvalidInput(
                    KEY,
                    f"{self.source} has changed since the run began, and trials of two versions cannot be compared; "
                    "restore it, or start a new run",
                )
        return Target(
            name=name,
            function=self.function,
            file=Path(self.file) if self.file else None,
            module=self.module,
            folder=Path(self.folder) if self.folder else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """How a run was asked for, without its problem and its plan, which its log holds.

    Attributes:
        train: what is trained.
        function: where the training function is; None when no other process can find it.
        space: the search space in words, to tell whether it has changed.
        configs: one for each trial, in plain JSON values.
        launcher: name of the launcher.
        storage: folder of the checkpoints, or the address of a store.
        checkpoint_every_s: longest time between two checkpoints within a stage.
        max_usd: hard limit of the bill.
        on_deadline: what happens when the deadline has come.
        replan: whether the rest may be planned anew.
        env: variables for every rank.
        experiment_file: path of the experiment file; empty when there was none.
        experiment_text: what it held.
        options: what was said beside it on the command line.
    """

    train: TrainRecord
    space: Mapping[str, Any]
    configs: tuple[Mapping[str, Any], ...]
    launcher: str
    storage: str
    function: FunctionRecord | None = None
    checkpoint_every_s: float = DEFAULT_CHECKPOINT_EVERY_S
    max_usd: float | None = None
    on_deadline: AtDeadline = "finish"
    replan: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    experiment_file: str = ""
    experiment_text: str = ""
    options: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        tuning: Tuning,
        configs: Sequence[Mapping[str, Any]],
        directory: RunDirectory,
        *,
        planner: str = DEFAULT_PLANNER,
        options: Sequence[str] = (),
    ) -> Recorded:
        """What there is to record of a run that `planner` planned, with these options of its command."""
        return cls(
            train=train_record(tuning),
            function=FunctionRecord.of(tuning.target if tuning.again is None else tuning.again),
            space=space_words(tuning.space),
            configs=tuple(plain(config) for config in configs),
            launcher=tuning.launcher,
            storage=place(tuning.storage, directory),
            checkpoint_every_s=tuning.checkpoint_every_s,
            max_usd=tuning.max_usd,
            on_deadline=tuning.on_deadline,
            replan=tuning.replan and planner == DEFAULT_PLANNER,
            env=dict(tuning.env),
            experiment_file="" if tuning.file is None else str(tuning.file),
            experiment_text=_text(tuning.file),
            options=tuple(options),
        )

    def table(self) -> dict[str, Any]:
        """What `request.json` holds."""
        table: dict[str, Any] = plain(asdict(self))
        return {"schema": SCHEMA, **{name: part for name, part in table.items() if part is not None}}


def read_recorded(directory: RunDirectory) -> Recorded:
    """What `request.json` of a run holds.

    Raises:
        InvalidInput: there is none, or it is not as it was written.
    """
    path = directory.request
    if not path.exists():
        raise InvalidInput(
            "RUN", f"{directory.path} holds no {path.name}, without which a run cannot be resumed; start a new run"
        )
    with naming(path):
        table = read_table(path, nulls_under=("configs", "space"))
        return shaped(Recorded, table, free=[part.name for part in fields(Recorded)])


def train_record(tuning: Tuning) -> TrainRecord:
    """What is trained, for comparison."""
    return TrainRecord(target=tuning.target.name, metric=tuning.metric, mode=tuning.mode, seed=tuning.seed)


def space_words(space: Space) -> dict[str, Any]:
    """A search space in plain values, as an experiment file says it; equal spaces give equal ones."""
    return {name: _words(values) for name, values in space.items()}


def findable(function: Callable[..., Any]) -> Target | None:
    """A target by which another process finds a function: by its module; None where that cannot be done."""
    module = sys.modules.get(getattr(function, "__module__", ""))
    name = getattr(function, "__qualname__", "")
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__" or file is None or getattr(module, name, None) is not function:
        return None
    path = Path(file).resolve()
    parts = module.__name__.split(".")
    if path.name == "__init__.py":
        parts.append("__init__")
    if path.suffix != ".py" or path.with_suffix("").parts[-len(parts) :] != tuple(parts):
        return None
    return Target(
        name=function.__qualname__, module=module.__name__, function=name, folder=path.parents[len(parts) - 1]
    )  # fmt: skip


def source_of(target: Target) -> Path | None:
    """The file that holds a named training function, found without importing anything; None when it is not found."""
    if target.file is not None:
        return target.file
    path = [*([] if target.folder is None else [str(target.folder)]), *sys.path]
    spec = None
    for part in target.module.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    file = None if spec is None or spec.origin is None else Path(spec.origin)
    return file if file is not None and file.is_file() else None


def _words(values: Any) -> Any:
    if not hasattr(values, "ppf"):
        return plain(list(values))
    if not hasattr(values, "dist"):
        return repr(values)
    arguments = list(values.args)
    if values.dist.name == "uniform" and len(arguments) == 2:
        arguments[1] += arguments[0]
    return plain({values.dist.name: [*arguments, *([dict(values.kwds)] if values.kwds else [])]})


def _text(file: Path | None) -> str:
    try:
        return "" if file is None else file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
