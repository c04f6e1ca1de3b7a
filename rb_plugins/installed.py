"""What is installed of what the package needs and its extras bring, from metadata alone: nothing is imported."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from urllib.parse import unquote, urlparse

DISTRIBUTION = "rubberband-tune"

GIVES: Mapping[str, str] = {
    "torch": "data-parallel training over several slots (launcher ddp)",
    "optuna": "RubberBandExecutor and RubberBandPruner for Optuna studies",
    "ray": "RubberBandScheduler for Ray Tune, launcher and provider ray, checkpoints in S3",
    "aws": "rented nodes on EC2 (provider ec2), and its prices of now (catalogue aws)",
    "report": "pictures of a front (pareto --picture), metrics for Prometheus (--metrics)",
}
"""What each extra for users is for."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?(?:>=\s*([0-9][0-9.]*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that is asked for.

    Attributes:
        name: its name on the index.
        lowest: the lowest supported version; empty where any will do.
        found: the version that is installed; empty where none is.
    """

    name: str
    lowest: str = ""
    found: str = ""

    @property
    def is_fit(self) -> bool:
        """Whether it is there, in a version that is supported."""
        return bool(self.found) and _numbers(self.found) >= _numbers(self.lowest)

    def __str__(self) -> str:
        if not self.found:
            return f"{self.name}, not installed"
        return f"{self.name} {self.found}" + ("" if self.is_fit else f", below {self.lowest}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """One extra of the package.

    Attributes:
        name: its name; empty for what the package always needs.
        packages: what it brings.
    """

    name: str
    packages: tuple[Package, ...]

    @property
    def is_fit(self) -> bool:
        """Whether all of it is there, in versions that are supported."""
        return all(package.is_fit for package in self.packages)

    @property
    def gives(self) -> str:
        """What it is for."""
        return GIVES.get(self.name, "")


def extras() -> dict[str, Extra]:
    """The package's extras for users by name, and under the empty name what it always needs."""
    found: dict[str, list[Package]] = {"": [], **{name: [] for name in GIVES}}
    for text in distribution(DISTRIBUTION).requires or ():
        requirement, _, marker = text.partition(";")
        named = _REQUIREMENT.match(requirement.strip())
        if named is not None and named[1] != DISTRIBUTION:
            extra = _EXTRA.search(marker)
            package = Package(name=named[1], lowest=named[2] or "", found=_version(named[1]))
            found.get(extra[1] if extra else "", []).append(package)
    return {name: Extra(name=name, packages=tuple(packages)) for name, packages in found.items() if packages}


def missing(*packages: str) -> tuple[str, ...]:
    """Those of these packages that are not installed."""
    return tuple(name for name in packages if not _version(name))


def install_command(*names: str) -> str:
    """The command that installs packages into the environment that this program runs in.

    Args:
        names: of packages; ``[torch]`` stands for the extra of this package.
    """
    wanted = [f"{_source()}{name}" if name.startswith("[") else name for name in names]
    editable = ["-e"] if _folder() and any(name.startswith("[") for name in names) else []
    return shlex.join([sys.executable, "-m", "pip", "install", *editable, *wanted])


def _source() -> str:
    return _folder() or DISTRIBUTION


def _folder() -> str:
    """The folder of the source where the package is installed from it as it stands; empty where it is not."""
    try:
        told = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        if told["dir_info"]["editable"]:
            return unquote(urlparse(told["url"]).path)
    except (PackageNotFoundError, KeyError, ValueError):
        pass
    return ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with: what tells releases apart."""
    leading = re.match(r"\d+(?:\.\d+)*", text)
    numbers = [int(part) for part in leading[0].split(".")] if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()  # 4.0 is 4
    return tuple(numbers)
