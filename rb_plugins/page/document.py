"""The whole page of a story: one file, which asks for nothing from anywhere."""

from __future__ import annotations

import base64
from collections import Counter
from hashlib import sha256
from pathlib import Path

from rb_core.errors import InvalidInput
from rb_plugins.page.curves import curves_chart
from rb_plugins.page.frame import dl
from rb_plugins.page.gantt import key, nodes_chart, trials_chart
from rb_plugins.page.markup import Markup, element, join
from rb_plugins.page.money import money_chart, money_table, shares_chart
from rb_plugins.page.story import Source, Story
from rb_plugins.page.style import CSS, SCRIPT, patterns
from rb_plugins.page.tables import curves_table, folded, notes_table, rows_table, stages_table, table

_LEADS = {
    Source.RUN: "A run that took place, told by its log.",
    Source.REHEARSAL: "A rehearsal: the real engine on a simulated cloud. Nothing was rented, and scores are made up "
    "unless recorded curves were given.",
    Source.PLAN: "A plan: nothing has run. The charts of time show every duration at its mean; the band of the "
    "forecast shows how far they vary. Which trials will go on is not known: here the first ones do.",
}


def page(story: Story) -> str:
    """The page as text; equal stories give equal pages."""
    sections = [
        ("time", "Time", _time(story)),
        ("curves", "Learning curves", _curves(story)),
        ("money", "Money over time", Markup(money_chart(story) + folded("in figures", table(money_table(story))))),
        ("stages", "Predicted and actual" if story.source is not Source.PLAN else "The plan", _tables(story, "stages")),
        ("bill", "Where every dollar went", Markup(_shares(story) + _tables(story, "bill"))),
        ("faults", "Faults and changes of the plan", _notes(story)),
        ("all", "Trials and nodes", _everything(story)),
        ("repeat", "Repeating it", _repeat(story)),
    ]
    links = element("ul", *(element("li", element("a", title, href=f"#{name}")) for name, title, _ in sections))
    body = element(
        "body",
        element("a", "to the content", href="#main", class_="skip"),
        patterns(),
        element(
            "header",
            element("h1", f"{story.name}: {story.state}"),
            element("p", _LEADS[story.source], class_="lead"),
            dl(story.headline),
            element("nav", links, aria_label="Sections"),
        ),
        element(
            "main",
            *(
                element("section", element("h2", title, id=f"{name}-h"), content, id=name, aria_labelledby=f"{name}-h")
                for name, title, content in sections
            ),
            id="main",
        ),
        element("footer", "Made by rb-tune. Times count from the first node request; money is in US dollars (usd)."),
        element("script", Markup(SCRIPT)),
    )
    return f"<!doctype html>\n{element('html', _head(story), body, lang='en')}\n"


def write(story: Story, path: Path) -> None:
    """Write the page into a file. Raises `InvalidInput` when that cannot be done."""
    try:
        path.write_text(page(story), encoding="utf-8")
    except OSError as error:
        raise InvalidInput("--html", f"{path} cannot be written: {error.strerror}; name another file") from None


def _head(story: Story) -> Markup:
    script = base64.b64encode(sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{script}'"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        Markup('<link rel="icon" href="data:,">'),
        element("title", f"{story.name}: {story.state}"),
        element("style", Markup(CSS)),
    )


def _time(story: Story) -> Markup:
    rows = element("p", "Nothing has been requested yet.", class_="none") if not story.nodes else nodes_chart(story)
    return join(
        [
            key(),
            element("h3", "Nodes"),
            rows,
            element("h3", "Trials"),
            trials_chart(story) if story.trials else element("p", "No trial yet.", class_="none"),
            folded("stages in figures", table(stages_table(story))),
        ]
    )


def _curves(story: Story) -> Markup:
    scored = [curve for curve in story.curves if curve.points]
    return join([curves_chart(story), *([folded("in figures", table(curves_table(story)))] if scored else [])])


def _tables(story: Story, name: str) -> Markup:
    return join(map(table, story.tables.get(name, ())))


def _shares(story: Story) -> Markup:
    return shares_chart(story) if story.shares else Markup()


def _notes(story: Story) -> Markup:
    if not story.notes:
        words = "Nothing has run." if story.source is Source.PLAN else "Nothing went otherwise than planned."
        return element("p", words, class_="none")
    kinds = Counter(note.kind for note in story.notes)
    counted = ", ".join(f"{kind}: {count}" for kind, count in kinds.most_common())
    few = len(story.notes) <= 20
    told = table(notes_table(story.notes))
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


def _repeat(story: Story) -> Markup:
    return element(
        "div",
        element(
            "table",
            element("caption", "Environment, command and seeds"),
            element(
                "tbody",
                *(
                    element("tr", element("th", name, scope="row"), element("td", value, class_="w"))
                    for name, value in story.repeat
                ),
            ),
        ),
        class_="scroll", tabindex="0", role="group", aria_label="Environment, command and seeds",
    )  # fmt: skip
