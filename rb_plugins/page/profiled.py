"""The page of a profiling: from its profile file, or from the directory that it left."""

from __future__ import annotations

from pathlib import Path

from rb_core.errors import InvalidInput
from rb_core.eventlog import read_log
from rb_core.report import Table, duration, money, seconds
from rb_plugins.config.profile import ProfileTable, read_profile_table
from rb_plugins.page.document import DEFAULT_NAME, Section, repeat_section, sheet, write_text
from rb_plugins.page.repeating import Repeating, of_survey
from rb_plugins.page.scaling import Scaling
from rb_plugins.page.scaling_chart import scaling_section
from rb_plugins.page.tables import table
from rb_plugins.surveyed import Surveyed


def profile_page(told: ProfileTable, *, name: str, repeating: Repeating) -> str:
    """The page of a profiling as text.

    Args:
        told: a profile file.
        name: what was measured.
        repeating: what is needed for repeating it.
    """
    scaling, profile = Scaling.measured(told), told.value()
    figures = [
        ("slots measured", ", ".join(map(str, scaling.sizes)), f"vouched for up to {scaling.largest_slots}"),
        ("a trial starts in", seconds(profile.start_s.mean), f"std {seconds(profile.start_s.std)}"),
        ("and saves in", seconds(profile.save_s.mean), f"std {seconds(profile.save_s.std)}"),
        ("speed differs by", f"{profile.trial_cv:.1%}", "between configurations"),
        ("and by", f"{profile.run_cv:.1%}", "between runs"),
        ("profiling took", duration(told.seconds), money(told.usd) if told.usd else ""),
    ]
    sections = [Section(name="scaling", title="Scaling", content=scaling_section(scaling))]
    if told.speeds:
        sections.append(Section(name="types", title="Other instance types", content=table(_speeds(told))))
    sections.append(repeat_section(repeating.facts, repeating.texts))
    lead = f"How {told.target or name} scales, measured {told.made}."
    return sheet(title=f"{name}: profile", lead=lead, figures=figures, sections=sections)


def surveyed_page(surveyed: Surveyed, path: Path) -> Path:
    """Write the page of a profiling from its directory, and return where it is.

    Args:
        surveyed: the profiling.
        path: the file; an empty one stands for `DEFAULT_NAME` in the profiling's directory.

    Raises:
        InvalidInput: nothing was measured, or the file cannot be written.
    """
    directory = surveyed.directory
    if not directory.profile.exists():
        raise InvalidInput(
            "--html", f"must be left out: profiling {directory.run} ended before it had measured anything"
        )
    path = directory.path / DEFAULT_NAME if path == Path() else path
    told = read_profile_table(directory.profile.name, folder=directory.path)
    repeating = of_survey(directory, read_log(directory.events).events)
    write_text(profile_page(told, name=directory.run, repeating=repeating), path)
    return path


def _speeds(told: ProfileTable) -> Table:
    rows = [(told.instance_type, "1", "", "the profiled one")]
    for name, speed in told.speeds.items():
        by_slots = ", ".join(f"{ratio:.3g} on {slots}" for slots, ratio in speed.by_slots.items())
        rows.append((name, f"{speed.mean:.3g}", f"{speed.std:.2g}", by_slots))
    columns = ("instance type", "speed", "std", "by slots a trial")
    return Table(title="Speed of instance types", columns=columns, words=columns[3:], rows=tuple(rows))
