"""The fenced blocks of a page, in order, with what comments that no reader sees say of them.

A comment that begins with ``hidden`` holds blocks that run like any other. One that begins with ``next:`` tells of the
block that follows it; CONTRIBUTING.md lists what it may say.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

LANGUAGES = {"python", "console", "toml", "json", "diff", "text"}
"""All that a page may hold; `text` is a drawing or an output, and is not run."""

DIRECTIVES = {"status": 1, "into": 1, "read": 2, "between": 2, "output": 0, "long": 0}
"""What a ``next:`` comment may begin with, and how many words follow."""


class PageError(Exception):
    """What is wrong with a page, and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        page: the file that holds it.
        line: number of its first line within the fence, from 1.
        language: first word after the fence.
        name: second word: the file that it is written into; empty for none.
        text: what it holds.
        notes: what ``next:`` comments say of it, in order: the directive and its words.
    """

    page: Path
    line: int
    language: str
    name: str = ""
    text: str
    notes: tuple[tuple[str, ...], ...] = field(default=())

    def told(self, directive: str) -> list[tuple[str, ...]]:
        """The words after each `directive`."""
        return [words for head, *words in self.notes if head == directive]

    def wrong(self, why: str) -> PageError:
        """An error that names the place."""
        return PageError(f"{self.page.name}, line {self.line}: {why}")


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page.

    Raises:
        PageError: a block has no language or an unknown one, or a comment says what nobody knows.
    """
    return _Reading(page).blocks


class _Reading:
    def __init__(self, page: Path) -> None:
        self.blocks: list[Block] = []
        self._page = page
        self._notes: list[tuple[str, ...]] = []
        self._read(page.read_text(encoding="utf-8"), 0)
        if self._notes:
            raise PageError(f"{page.name}: no block follows the comment {shlex.join(self._notes[0])!r}")

    def _read(self, text: str, above: int) -> None:
        for token in MarkdownIt().parse(text):
            line = above + (token.map or [0])[0] + 1
            if token.type == "code_block":
                raise PageError(f"{self._page.name}, line {line}: indented code has no language; fence it")
            if token.type == "html_block" and token.content.lstrip().startswith("<!--"):
                self._comment(token.content, line)
            elif token.type == "fence":
                self._block(token, line + 1)

    def _comment(self, content: str, line: int) -> None:
        inner = content.strip().removeprefix("<!--").removesuffix("-->").strip()
        head, _, rest = inner.partition("\n")
        if head == "hidden":
            self._read(rest, line)
            return
        words = tuple(shlex.split(inner.removeprefix("next:"))) if inner.startswith("next:") else ()
        if not words or DIRECTIVES.get(words[0]) != len(words) - 1:
            raise PageError(f"{self._page.name}, line {line}: nobody knows what the comment {inner!r} asks for")
        self._notes.append(words)

    def _block(self, token: Token, line: int) -> None:
        language, _, name = token.info.strip().partition(" ")
        block = Block(
            page=self._page,
            line=line,
            language=language,
            name=name.strip(),
            text=token.content,
            notes=tuple(self._notes),
        )
        if language not in LANGUAGES and not language.startswith("{"):
            raise block.wrong(f"the fence's language must be one of {', '.join(sorted(LANGUAGES))}, got {language!r}")
        self.blocks.append(block)
        self._notes.clear()
