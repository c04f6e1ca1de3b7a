"""The command that measures: `profile`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rb_plugins import completing
from rb_plugins.command import FILE, check_html, command, open_session
from rb_plugins.consent import ask

if TYPE_CHECKING:
    from rb_plugins.profiling import ProfileRequest


_ASIDE = ("target", "output", "html", "yes", "as_json", "debug")
"""What the command is told that changes nothing of what is measured."""


@command
@click.argument("target")
@click.option("--slots", default="", help="Numbers of slots to measure, such as 1,2,4; powers of two by default.")
@click.option("--budget", default=None, help="Longest time that it may take, such as 60s or 5m; 5m by default.")
@click.option("--config", "configs", multiple=True, help="A configuration as a JSON object; may be repeated.")
@click.option(
    "--launcher",
    default=None,
    help="How processes are started; ddp by default, ray on rented nodes.",
    shell_complete=completing.launchers,
)
@click.option(
    "--provider",
    default=None,
    help="Who rents the nodes, such as ec2; this machine by default.",
    shell_complete=completing.providers,
)
@click.option("--region", default=None, help="Where.")
@click.option("--instance-types", default=None, help="Such as a,b: the profile of the first, and the speeds of others.")
@click.option(
    "--catalog",
    default=None,
    help="Whose prices; by default the catalogue of the provider's name.",
    shell_complete=completing.catalogs,
)
@click.option("--market", default=None, help="How nodes are bought: on_demand (the default) or spot.")
@click.option("--cloud", "cloud_file", type=FILE, default=None, help="A file that says the rest, as the key cloud.")
@click.option("--max-usd", type=float, default=None, help="Hard limit of what it may cost.")
@click.option("--yes", is_flag=True, help="Do not ask before money is spent.")
@click.option("-o", "--output", type=FILE, default=None, help="Where the profile file goes.")
@click.option("--html", type=FILE, default=None, help="Also write what was measured as a page into this file.")
def profile(
    target: str,
    slots: str,
    budget: str | None,
    configs: tuple[str, ...],
    launcher: str | None,
    provider: str | None,
    region: str | None,
    instance_types: str | None,
    catalog: str | None,
    market: str | None,
    cloud_file: Path | None,
    max_usd: float | None,
    yes: bool,
    output: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Measure how TARGET scales: FILE.py:FUNCTION, package.module:FUNCTION, or an experiment file."""
    from rb_core.errors import TrialFailure
    from rb_core.report import duration, money, profile_table, speeds_table
    from rb_plugins import show
    from rb_plugins.asked import Place, asked_to_profile
    from rb_plugins.interrupts import interruptible
    from rb_plugins.profiling import measured_table

    session = open_session()
    place = Place(
        provider=provider,
        region=region,
        instance_types=instance_types,
        catalog=catalog,
        market=market,
        file=cloud_file,
    )
    request = asked_to_profile(
        session, target, slots=slots, budget=budget, configs=configs, launcher=launcher, place=place, max_usd=max_usd
    )
    check_html(html)
    ask(request.cloud, most_usd(request), yes)
    with interruptible(), session.launcher(request.launcher, request.target, cloud=request.cloud) as running:
        show.note(announced(request))
        try:
            measured = session.measure(request, running)
        except TrialFailure as error:
            if not any(request.configs):
                error.add_note("give it a configuration: --config JSON, or an experiment file in place of the function")
            raise
    made = session.clock.utc().isoformat(timespec="seconds")
    table = measured_table(measured, target=request.target.name, made=made, cloud=request.cloud)
    if output is not None:
        _write(output, table)
    if html is not None:
        _write_page(html, table, target, seed=request.seed)
    for warning in measured.warnings:
        show.note(f"warning: {warning}")
    if as_json:
        show.answer(table)
        return
    show.table(profile_table(measured.profile, measured=True))
    if measured.speeds:
        show.table(speeds_table(measured))
    if measured.usd > 0:
        show.line(f"profiling took {duration(measured.seconds)} and cost {money(measured.usd)}")


def _write_page(path: Path, table: Mapping[str, Any], target: str, *, seed: int) -> None:
    from rb_plugins.config.profile import read_profile_table
    from rb_plugins.page.document import write_text
    from rb_plugins.page.profiled import profile_page
    from rb_plugins.page.repeating import Repeating, as_json, asked_words
    from rb_plugins.requested import environment

    given = {name: value for name, value in click.get_current_context().params.items() if name not in _ASIDE}
    command = asked_words("profile", target, given)
    facts = (("command", command), ("seed", str(seed)), *environment().items())
    told = read_profile_table({k: v for k, v in table.items() if k != "schema"}, folder=Path())
    repeating = Repeating(facts=facts, texts=(("the profile file", as_json(table)),))
    write_text(profile_page(told, name=table["target"], repeating=repeating), path)


def most_usd(request: ProfileRequest) -> float:
    """What profiling is expected to cost at most; never more than its limit."""
    from rb_core.survey import most_usd
    from rb_plugins.profiling import benches

    expected_usd = most_usd(benches(request), request.cloud, request.measuring.budget_s)
    return expected_usd if request.max_usd is None else min(expected_usd, request.max_usd)


def announced(request: ProfileRequest) -> str:
    """What is about to be measured, in words."""
    from rb_core.report import duration, money
    from rb_plugins.profiling import sizes

    slots = ", ".join(map(str, sizes(request.measuring, request.cloud)))
    first = request.cloud.instance_types[0].name
    where = f" of {', '.join([first, *request.others])} in turn" if request.others else ""
    cost = "" if request.cloud.provider == "local" else f" and about {money(most_usd(request))}"
    time = duration(request.measuring.budget_s)
    return f"profiling {request.target.name} on {slots} slots per trial{where}, for at most {time}{cost}"


def _write(path: Path, table: Mapping[str, Any]) -> None:
    from rb_core.errors import InvalidInput
    from rb_plugins.rundir import write_json

    try:
        write_json(path, table)
    except OSError as error:
        raise InvalidInput("--output", f"{path} cannot be written: {error.strerror}; name a file that can be") from None
