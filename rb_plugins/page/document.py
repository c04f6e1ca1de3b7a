"""The whole page of a story: one file, which asks for nothing from anywhere."""

from __future__ import annotations

import base64
import os
import secrets
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from rb_core.errors import InvalidInput
from rb_core.report import Table
from rb_plugins.page.curves import curves_chart
from rb_plugins.page.frame import dl
from rb_plugins.page.gantt import key, nodes_chart, trials_chart
from rb_plugins.page.marks import NOTE, marks_key
from rb_plugins.page.markup import Markup, element, join
from rb_plugins.page.money import money_chart, money_table, shares_chart
from rb_plugins.page.repeating import Pairs
from rb_plugins.page.scaling import Scaling
from rb_plugins.page.scaling_chart import scaling_section
from rb_plugins.page.story import Source, Story
from rb_plugins.page.style import CSS, SCRIPT, patterns
from rb_plugins.page.tables import curves_table, folded, notes_table, rows_table, stages_table, table

DEFAULT_NAME = "report.html"
"""Name of a page in the directory of what it is of."""

_LEADS = {
    Source.RUN: "A run that took place, told by its log.",
    Source.REHEARSAL: "A rehearsal: the real engine on a simulated cloud. Nothing was rented, and scores are made up "
    "unless recorded curves were given.",
    Source.PLAN: "A plan: nothing has run. The charts of time show every duration at its mean; the band of the "
    "forecast shows how far they vary. Which trials will go on is not known: here the first ones do.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page, under a heading that the navigation leads to."""

    name: str
    title: str
    content: Markup


_COMMAND = 4000
"""Longest value of what is needed for repeating something: a command is of use only whole."""


def page(story: Story) -> str:
    """The page of a story as text; equal stories give equal pages."""
    return sheet(
        title=f"{story.name}: {story.state}",
        lead=_LEADS[story.source],
        notice=story.notice,
        figures=story.headline,
        sections=[*_sections(story), *_profile(story.profile), repeat_section(story.repeat, story.texts)],
    )


def _sections(story: Story) -> list[Section]:
    """What happened, or what is planned: of that nothing has scores or faults."""
    time = Section(name="time", title="Time", content=_time(story))
    money = Section(
        name="money",
        title="Money over time",
        content=Markup(money_chart(story) + folded("in figures", table(money_table(story)))),
    )
    stages, bill = _told(story, "stages"), Markup(_shares(story) + _told(story, "bill"))
    everything = Section(name="all", title="Trials and nodes", content=_everything(story))
    if story.source is Source.PLAN:
        return [
            Section(name="stages", title="The plan", content=stages),
            time,
            money,
            Section(name="bill", title="Where every second and dollar goes", content=bill),
            everything,
        ]
    return [
        time,
        Section(name="curves", title="Learning curves", content=_curves(story)),
        money,
        Section(name="stages", title="Predicted and actual", content=stages),
        Section(name="bill", title="Where every dollar went", content=bill),
        Section(name="faults", title="Faults and changes of the plan", content=_notes(story)),
        everything,
    ]


def sheet(
    *, title: str, lead: str, figures: Iterable[tuple[str, str, str]], sections: Sequence[Section], notice: str = ""
) -> str:
    """A whole page as text.

    Args:
        title: of the page.
        lead: what it is of, in a sentence.
        figures: at the top: name, value, remark.
        sections: below one another.
        notice: what is to be known before anything else.
    """
    links = element("ul", *(element("li", element("a", each.title, href=f"#{each.name}")) for each in sections))
    body = element(
        "body",
        element("a", "to the content", href="#main", class_="skip"),
        patterns(),
        element(
            "header",
            element("h1", title),
            element("p", lead, class_="lead"),
            *([element("p", notice, class_="notice", role="note")] if notice else []),
            dl(figures),
            element("nav", links, aria_label="Sections"),
        ),
        element("main", *map(_section, sections), id="main"),
        element("footer", "Made by rb-tune. Times count from the first node request; money is in US dollars (usd)."),
        element("script", Markup(SCRIPT)),
    )
    return f"<!doctype html>\n{element('html', _head(title), body, lang='en')}\n"


def write(story: Story, path: Path) -> None:
    """Write the page of a story into a file. Raises `InvalidInput` when that cannot be done."""
    write_text(page(story), path)


def write_text(text: str, path: Path) -> None:
    """Write a page into a file, whole or not at all. Raises `InvalidInput` when that cannot be done."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device
            path.write_text(text, encoding="utf-8")
        else:
            _put(text, path.resolve())
    except OSError as error:
        raise InvalidInput("--html", f"{path} cannot be written: {error.strerror}; name another file") from None


def _put(text: str, path: Path) -> None:
    draft = path.with_name(f".rb-tune-{secrets.token_hex(8)}.html")
    try:
        with draft.open("x", encoding="utf-8") as file:
            file.write(text)
        if path.exists():
            draft.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _section(each: Section) -> Markup:
    heading = element("h2", each.title, id=f"{each.name}-h")
    return element("section", heading, each.content, id=each.name, aria_labelledby=f"{each.name}-h")


def _head(title: str) -> Markup:
    script = base64.b64encode(sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{script}'"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        Markup('<link rel="icon" href="data:,">'),
        element("title", title),
        element("style", Markup(CSS)),
    )


def _time(story: Story) -> Markup:
    rows = element("p", "Nothing has been requested yet.", class_="none") if not story.nodes else nodes_chart(story)
    return join(
        [
            key(story),
            marks_key(story.notes),
            element("h3", "Nodes"),
            rows,
            element("h3", "Trials"),
            trials_chart(story) if story.trials else element("p", "No trial yet.", class_="none"),
            folded("stages in figures", table(stages_table(story))),
        ]
    )


def _curves(story: Story) -> Markup:
    scored = [curve for curve in story.curves if curve.points]
    figures = [folded("in figures", table(curves_table(story)))] if scored else []
    return join([curves_chart(story), *figures, _told(story, "best")])


def _told(story: Story, name: str) -> Markup:
    return join(map(table, story.tables.get(name, ())))


def _shares(story: Story) -> Markup:
    return shares_chart(story) if story.shares else Markup()


def _notes(story: Story) -> Markup:
    if not story.notes:
        return element("p", "No fault, and no change of the plan.", class_="none")
    kinds = Counter(note.kind for note in story.notes)
    counted = ", ".join(f"{kind}: {count}" for kind, count in kinds.most_common())
    few = len(story.notes) <= 20
    told = table(notes_table(story.notes), rows_named=NOTE)
    return join([element("p", counted), told if few else folded(f"all {len(story.notes)}", told)])


def _everything(story: Story) -> Markup:
    tables = [*(folded(each.title, table(each)) for each in story.tables.get("trials", ()))]
    if story.trials:
        title = f"Time of {len(story.trials)} trials"
        tables.append(folded(title, table(rows_table(title, "trial", story.trials))))
    if story.nodes:
        title = f"Time of {len(story.nodes)} nodes"
        tables.append(folded(title, table(rows_table(title, "node", story.nodes))))
    return join(tables)


def _profile(profile: Scaling | None) -> list[Section]:
    if profile is None:
        return []
    return [Section(name="scaling", title="What the plan rests on", content=scaling_section(profile))]


def repeat_section(facts: Pairs, texts: Pairs) -> Section:
    """What is needed for repeating something: names and values, and names of files and what they hold."""
    title, columns = "Command, seeds and environment", ("what", "value")
    told = table(Table(title=title, columns=columns, rows=facts, words=("value",)), longest=_COMMAND)
    content = join([told, *(folded(name, _text(name, text)) for name, text in texts)])
    return Section(name="repeat", title="Repeating it", content=content)


def _text(name: str, text: str) -> Markup:
    """A text that can be read by keyboard too where it is longer than its place."""
    return element("pre", text, tabindex="0", role="group", aria_label=name)
