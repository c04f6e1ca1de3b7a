"""What `rb-tune profile` is asked for: the function of an experiment file, or a bare one, here or on rented nodes."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_core.check import one_of, positive
from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType, MarketPolicy
from rb_core.providers.machine import devices
from rb_core.target import Target
from rb_plugins.config.cloud import read_cloud
from rb_plugins.config.durations import seconds
from rb_plugins.config.given import Given, read_given
from rb_plugins.config.source import read_table
from rb_plugins.profiling import ProfileRequest
from rb_plugins.tuning import DEFAULT_LAUNCHER, Measuring, Tuning

if TYPE_CHECKING:
    from rb_plugins.session import Session

ITERATIONS = 1000
"""What a bare function is told of how long a trial may become."""


RENTED_LAUNCHER = "ray"
"""Starts a bare function on nodes that are other machines."""

_MARKETS = tuple(policy.value for policy in MarketPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to measure, as the command is told it; None where it is not.

    Attributes:
        provider: who rents the nodes.
        region: where.
        instance_types: names, separated by commas.
        catalog: whose prices.
        market: how nodes are bought.
        file: a file that says the rest, as the key `cloud` of an experiment file.
    """

    provider: str | None = None
    region: str | None = None
    instance_types: str | None = None
    catalog: str | None = None
    market: str | None = None
    file: Path | None = None

    def of(self, tuning: Tuning) -> Tuning:
        """A run's cloud, perhaps with some of its types alone. Raises `InvalidInput` under the option's name."""
        for option in ("provider", "region", "catalog", "market", "file"):
            if getattr(self, option) is not None:
                name = "cloud" if option == "file" else option
                raise InvalidInput(
                    f"--{name}", "must be left out, since the experiment file says where nodes are rented"
                )
        if self.instance_types is None:
            return tuning
        return dataclasses.replace(
            tuning, cloud=_chosen(tuning.cloud, _names(self.instance_types)), given=tuning.by_hand
        )

    def cloud(self, session: Session) -> tuple[Cloud, Given]:
        """A bare function's cloud, and what of it was said by hand; this machine where no option is given.

        Raises:
            InvalidInput: it is not whole; the error names the option.
        """
        table = {} if self.file is None else read_table(self.file)
        said = {"provider": self.provider, "region": self.region, "catalog": self.catalog, "market": self.market}
        table.update({key: value for key, value in said.items() if value is not None})
        if not table and self.instance_types is None:
            machine = InstanceType(name="machine", slots=len(devices()), usd_per_hour=0.0)
            return Cloud(instance_types=(machine,), max_nodes=1), Given()
        if self.market is not None:
            one_of("--market", self.market, _MARKETS)
        priced = "catalog" in table or "instance_types" in table
        if not priced and table.get("provider") in session.manager.price_books():
            table["catalog"] = table["provider"]
        names = None if self.instance_types is None else _names(self.instance_types)
        if "catalog" in table and names is not None:
            table.setdefault("instance_types", names)
        for key in ("region", "instance_types") if "catalog" in table else ("instance_types",):
            if key not in table:
                raise InvalidInput(f"--{key.replace('_', '-')}", _MISSING[key])
        folder = Path() if self.file is None else self.file.parent
        with _options(self.file):
            cloud = read_cloud(table, folder=folder, price_books=session.price_book, rented=True)
        given = read_given(table, folder=folder)
        return session.seen(cloud, given) if names is None else session.seen(_chosen(cloud, names), given), given


_MISSING = {
    "region": "is required: where the nodes are to be rented, such as us-west-2",
    "instance_types": "is required: the types to measure, whose prices a catalogue (--catalog) or a file (--cloud) has",
}


def asked_to_profile(
    session: Session,
    target: str,
    *,
    slots: str,
    budget: str | None,
    configs: Sequence[str],
    launcher: str | None,
    place: Place = Place(),
    max_usd: float | None = None,
) -> ProfileRequest:
    """What is to be measured.

    Args:
        session: reads experiment files.
        target: an experiment file, or a reference to a training function.
        slots: numbers of slots, separated by commas; empty for the file's, or powers of two.
        budget: a duration; None for the file's, or the default.
        configs: JSON objects, for a bare function.
        launcher: name of a launcher; None for the file's, or the default.
        place: where to measure.
        max_usd: hard limit of what it may cost; None for the file's, or none.

    Raises:
        InvalidInput: an option does not fit.
    """
    if Path(target).suffix.lower() in (".toml", ".json"):
        if configs:
            raise InvalidInput("--config", f"must be left out, since configurations are drawn from {target}")
        request = session.to_measure(place.of(session.load_tuning(Path(target))))
    else:
        cloud, given = place.cloud(session)
        measured = Target.parse(target)
        request = ProfileRequest(
            target=measured,
            name=measured.name,
            launcher=DEFAULT_LAUNCHER if cloud.provider == "local" else RENTED_LAUNCHER,
            cloud=cloud,
            others=tuple(found.name for found in cloud.instance_types[1:] if found.name not in given.speeds),
            configs=tuple(_config(number, text) for number, text in enumerate(configs)) or ({},),
            measuring=Measuring(),
            max_iterations=ITERATIONS,
        )
    measuring = request.measuring
    if slots:
        measuring = dataclasses.replace(measuring, slots=_slots(slots))
    if budget is not None:
        try:
            measuring = dataclasses.replace(measuring, budget_s=seconds(budget))
        except InvalidInput as error:
            raise InvalidInput("--budget", error.problem) from None
    if max_usd is not None:
        request = dataclasses.replace(request, max_usd=positive("--max-usd", max_usd))
    return dataclasses.replace(request, measuring=measuring, launcher=launcher or request.launcher)


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise InvalidInput("--instance-types", f"must be names separated by commas, got {text!r}")
    return names


def _chosen(cloud: Cloud, names: Sequence[str]) -> Cloud:
    """The cloud with these of its types alone, the first one first."""
    try:
        types = tuple(cloud.instance_type(name) for name in names)
    except InvalidInput as error:
        raise InvalidInput("--instance-types", error.problem) from None
    return dataclasses.replace(cloud, instance_types=types)


@contextmanager
def _options(file: Path | None) -> Iterator[None]:
    """Let errors of a cloud that no file holds name the option."""
    try:
        yield
    except InvalidInput as error:
        if file is not None or not error.key.startswith("cloud."):
            raise
        key = re.sub(r"[\[.].*", "", error.key.removeprefix("cloud."))
        raise InvalidInput(f"--{key.replace('_', '-')}", error.problem) from None


def _config(number: int, text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"--config[{number}]", f"must be a JSON object, got {text!r}: {error}") from None
    if not isinstance(config, dict):
        raise InvalidInput(f"--config[{number}]", f"must be a JSON object, got {text!r}")
    return config


def _slots(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise InvalidInput("--slots", f"must be positive numbers separated by commas, such as 1,2,4; got {text!r}")
    return numbers
