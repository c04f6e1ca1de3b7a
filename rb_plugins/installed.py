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

from rb_core.providers.machine import may_have_gpu

DISTRIBUTION = "rubberband-tune"

GIVES: Mapping[str, str] = {
    "torch": "data-parallel training over several slots (launcher ddp)",
    "optuna": "RubberBandExecutor and RubberBandPruner for Optuna studies",
    "ray": "RubberBandScheduler for Ray Tune, launcher and provider ray, checkpoints in S3",
    "aws": "rented nodes on EC2 (provider ec2), and its prices of now (catalogue aws)",
    "report": "pictures of a front (pareto --picture), metrics for Prometheus (--metrics)",
}
"""What each extra for users is for."""

TORCH_FOR_CPUS = "https://download.pytorch.org/whl/cpu"
"""The index with PyTorch's builds for CPUs alone, without gigabytes of CUDA."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(\[[^\]]*\])?\s*\(?(?:>=\s*([0-9][0-9.]*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that is asked for.

    Attributes:
        name: its name on the index.
        lowest: the lowest supported version; empty where any will do.
        found: the version that is installed; empty where none is.
        parts: its own extras that are asked for, such as ``[tune]``; empty for none.
    """

    name: str
    lowest: str = ""
    found: str = ""
    parts: str = ""

    @property
    def requirement(self) -> str:
        """What is asked for, as pip takes it."""
        return f"{self.name}{self.parts}" + (f">={self.lowest}" if self.lowest else "")

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
            lowest = named[3] or ""
            package = Package(name=named[1], lowest=lowest, found=_version(named[1]), parts=named[2] or "")
            found.get(extra[1] if extra else "", []).append(package)
    return {name: Extra(name=name, packages=tuple(packages)) for name, packages in found.items() if packages}


def missing(*packages: str) -> tuple[str, ...]:
    """Those of these packages that are not installed."""
    return tuple(name for name in packages if not _version(name))


def install_command(*names: str) -> str:
    """The command that installs packages into the environment that this program runs in.

    Args:
        names: of packages; ``[torch]`` stands for the extra of this package, and alone, on a machine without a GPU, for
            PyTorch's build for CPUs.
    """
    if names == ("[torch]",) and not may_have_gpu():
        names = (_asked_for("torch").requirement, "--index-url", TORCH_FOR_CPUS)
    wanted = [f"{_source()}{name}" if name.startswith("[") else name for name in names]
    editable = ["-e"] if _folder() and any(name.startswith("[") for name in names) else []
    return shlex.join([sys.executable, "-m", "pip", "install", *editable, *wanted])


def reinstall_command(*names: str) -> str:
    """The command that installs packages anew, whatever is there of them and of what they need."""
    wanted = {name: _asked_for(name).requirement for name in names}
    if "torch" in wanted and not may_have_gpu():
        torch = install_command("--force-reinstall", wanted.pop("torch"), "--index-url", TORCH_FOR_CPUS)
        return " && ".join([torch, *([reinstall_command(*wanted)] if wanted else [])])
    return install_command("--force-reinstall", *wanted.values())


def _asked_for(name: str) -> Package:
    """A package as an extra asks for it; by its mere name where none does."""
    known = (package for extra in extras().values() for package in extra.packages)
    return next((package for package in known if package.name == name), Package(name=name))


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
