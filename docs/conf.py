"""The site: the repository's own pages as they stand, and the reference from the docstrings. `./dev docs` builds it."""

from __future__ import annotations

import tomllib
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx import addnodes

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
COLON = "\uf8ff"

project = "rubberband-tune"
author = "the authors of rubberband-tune"
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "docs/**.rst", "examples/**.md"]
exclude_patterns = ["**/.*", "build", "shared"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]

default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [
    # Backticks in docstrings are code; where one names something of the reference, it becomes a link.
    ("py:obj", r".*"),
    # No other project's reference is at hand without a network.
    ("py:.*", r"(?!rb_).*"),
    # Of the reference's own: what is private, and what stands for other types.
    ("py:class", r"rb_\w+\.(.+\.)?_\w+"),
    ("py:class", r"rb_core\.engine\.request\.OnDeadline|rb_plugins\.manager\.Factory|rb_optuna\.gate\.\w+"),
]

autoclass_content = "both"
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_sourcelink = False
html_static_path: list[str] = []


def folders_are_words(app: Sphinx, doctree: nodes.document) -> None:
    """Make a link to a folder of the repository, which has no page, its words alone."""
    here = Path(doctree["source"]).parent
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link["reftype"] == "myst" and (here / link["reftarget"]).is_dir():
            link.replace_self(link.children)


def ports_take_nothing(
    app: Sphinx, what: str, name: str, described: object, options: object, signature: str | None, answer: str | None
) -> tuple[str | None, str | None]:
    """Leave out the arguments of what nobody calls: protocols and enums."""
    nobody = isinstance(described, type) and (issubclass(described, Enum) or getattr(described, "_is_protocol", False))
    return ("" if nobody else signature), answer


def colons_hidden(app: Sphinx, what: str, name: str, described: object, options: object, lines: list[str]) -> None:
    """Keep napoleon from taking the first words of a property's docstring, up to a colon, for its type."""
    if what in ("property", "attribute", "data") and lines:
        lines[0] = lines[0].replace(":", COLON)


def colons_shown(app: Sphinx, what: str, name: str, described: object, options: object, lines: list[str]) -> None:
    """Give back what `colons_hidden` took, when napoleon is done."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", folders_are_words)
    app.connect("autodoc-process-signature", ports_take_nothing)
    app.connect("autodoc-process-docstring", colons_hidden, priority=400)
    app.connect("autodoc-process-docstring", colons_shown, priority=600)
