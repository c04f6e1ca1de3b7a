"""A page as its words: headings, and the tables and texts of each section."""

from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path


class Reading(HTMLParser):
    """What a page says.

    Attributes:
        title: its heading.
        notice: what stands above everything, empty where nothing does.
        rows: rows of cells of the tables, by section.
        texts: whole texts by their names.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.title = self.notice = ""
        self.rows = defaultdict(list)
        self.texts = {}
        self._section, self._tag, self._name = "", "", ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self._tag = "notice" if told.get("class") == "notice" else tag
        if tag == "section":
            self._section = told["id"]
        elif tag == "tr":
            self.rows[self._section].append([])
        elif tag in ("td", "th"):
            self.rows[self._section][-1].append("")
        elif tag == "small":
            self._tag = "td"
            self.handle_data("\n")
        elif tag == "pre":
            self._name = told["aria-label"]
            self.texts[self._name] = ""

    def handle_endtag(self, tag):
        self._tag = ""

    def handle_data(self, data):
        match self._tag:
            case "h1":
                self.title += data
            case "notice" if not self._section:
                self.notice += data
            case "td" | "th":
                self.rows[self._section][-1][-1] += data
            case "pre":
                self.texts[self._name] += data

    def fact(self, name: str) -> str:
        """A value among what is needed for repeating."""
        return next(row[1] for row in self.rows["repeat"] if row[0] == name)
