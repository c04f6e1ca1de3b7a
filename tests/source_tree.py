"""The packages of this repository as text: their modules and what each imports, wherever the import stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

PACKAGES = {
    "rb_core": ROOT / "rb_core",
    "rb_plugins": ROOT / "rb_plugins",
    "rb_optuna": ROOT / "adapters" / "rb_optuna",
    "rb_ray": ROOT / "adapters" / "rb_ray",
}

TEMPLATES = ROOT / "rb_plugins" / "templates"
"""What `rb-tune init` writes: shipped with the package, but no modules of it."""

NOT_OURS = {"build", "dist", "shared"}
"""Top-level folders that are no part of the repository, beside the hidden ones."""


@dataclass(frozen=True, slots=True)
class Module:
    """One module: its dotted name (a package's own is the package's) and its source."""

    name: str
    source: str
    package: bool = False
    tree: ast.Module = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", ast.parse(self.source, filename=self.name))

    def imports(self) -> Iterator[str]:
        """Dotted names of all that is imported: in functions and under TYPE_CHECKING too.

        ``from a import b`` gives ``a.b`` where that is a module of ours, else ``a``.
        """
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                for alias in node.names:
                    full = f"{base}.{alias.name}"
                    yield full if full in names() else base

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        folder = parts[: len(parts) - node.level + self.package]
        return ".".join([*folder, *([node.module] if node.module else [])])


def modules(*packages: str) -> Iterator[Module]:
    """Every module of these packages; of all when none is named."""
    for package in packages or PACKAGES:
        for file in sorted(PACKAGES[package].rglob("*.py")):
            if TEMPLATES in file.parents:
                continue
            parts = [package, *file.relative_to(PACKAGES[package]).with_suffix("").parts]
            is_package = parts[-1] == "__init__"
            yield Module(".".join(parts[:-1] if is_package else parts), file.read_text(encoding="utf-8"), is_package)


@cache
def names() -> frozenset[str]:
    """Dotted names of all modules."""
    return frozenset(module.name for module in modules())


def files(pattern: str) -> Iterator[Path]:
    """Files of the repository itself, without hidden folders and what was built."""
    for path in sorted(ROOT.rglob(pattern)):
        inner = path.relative_to(ROOT).parts
        if inner[0] not in NOT_OURS and not any(part.startswith(".") or part == "__pycache__" for part in inner):
            yield path
