"""The command `rb-tune`: reads options, calls the session, prints. Everything heavy is imported where it is used.

The commands that plan are in `rb_plugins.planning`, those that run in `rb_plugins.runs`, the one that measures in
`rb_plugins.measuring`, those that look at an account in `rb_plugins.estates` and the one that looks ahead in
`rb_plugins.checking`; those that list are here.
"""

from __future__ import annotations

import click

from rb_plugins import checking, completing, completion, doctor, estates, measuring, planning, runs, starting, watching
from rb_plugins.command import command, main, open_session

__all__ = [
    "checking",
    "completion",
    "doctor",
    "estates",
    "main",
    "measuring",
    "planning",
    "runs",
    "starting",
    "watching",
]


@command
def plugins(as_json: bool) -> None:
    """List plugins, what they give, and what is wrong with them."""
    from rb_plugins import show
    from rb_plugins.listing import plugins_answer, plugins_tables

    manager = open_session().manager
    if as_json:
        show.answer(plugins_answer(manager))
    else:
        for table in plugins_tables(manager):
            show.table(table)


@command
@click.argument("name", default="ec2", shell_complete=completing.catalogs)
@click.option("--region", default=None, help="Only this region.")
@click.option("--market", type=click.Choice(["on_demand", "spot"]), default=None, help="Only this market.")
@click.option("--gpu", is_flag=True, help="Only types with GPUs.")
@click.option("--max-usd-per-hour", type=float, default=None, help="Only types that cost at most so much, whole.")
def catalog(
    name: str, region: str | None, market: str | None, gpu: bool, max_usd_per_hour: float | None, as_json: bool
) -> None:
    """List the instance types and prices of a catalogue: ec2, a snapshot (the default), or aws, the prices of now."""
    from rb_plugins import show
    from rb_plugins.listing import Wish, catalog_answer, catalog_table

    wish = Wish(region=region, market=market, gpu=gpu, max_usd_per_hour=max_usd_per_hour)
    book = open_session().price_book(name, region=region or "")
    if as_json:
        show.answer(catalog_answer(book, wish))
    else:
        show.table(catalog_table(book, wish))
