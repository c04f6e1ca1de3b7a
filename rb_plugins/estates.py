"""The commands that look at an account: `nodes` and `gc`, and `policy`, which says by which rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from rb_plugins import completing
from rb_plugins.command import command, open_session

if TYPE_CHECKING:
    from rb_core.estate import Estate, Known
    from rb_core.hardware import PriceBook
    from rb_plugins.session import Session

PROVIDER = click.option(
    "--provider", default="ec2", show_default=True, help="Whose account.", shell_complete=completing.estates
)
REGION = click.option("--region", default=None, help="Only there; by default where the runs known here were.")
ALL_REGIONS = click.option("--all-regions", is_flag=True, help="In all regions that the account can use.")


@command
@PROVIDER
@REGION
@ALL_REGIONS
def nodes(provider: str, region: str | None, all_regions: bool, as_json: bool) -> None:
    """List everything in the account that carries our tags, with its run and what it has cost so far."""
    from rb_core.collecting import UncollectedEstate, check_seen, collect
    from rb_plugins import show
    from rb_plugins.belongings import nodes_answer, nodes_table, price_so_far

    session = open_session()
    with _opened(session, provider) as (estate, runs):
        regions = _regions(session, estate, region, all_regions)
        seen = collect(estate, regions, runs, session.clock, dry_run=True)
    check_seen(seen)
    known = runs()
    price = price_so_far(known, _book(session, provider), session.clock.utc())
    if as_json:
        show.answer(nodes_answer(seen, known, price))
    else:
        show.table(nodes_table(seen, known, price, ", ".join(regions)))
    if seen.troubles:
        raise UncollectedEstate(seen.troubles)


@command
@PROVIDER
@REGION
@ALL_REGIONS
@click.option(
    "--run",
    "run_",
    default=None,
    metavar="RUN",
    help="Only this run's, even if its log is not here.",
    shell_complete=completing.runs,
)
@click.option("--dry-run", is_flag=True, help="Say what would be ended, and end nothing.")
@click.option("--timeout", default="5m", show_default=True, help="How long to wait until the last is gone.")
def gc(
    provider: str,
    region: str | None,
    all_regions: bool,
    run_: str | None,
    dry_run: bool,
    timeout: str,
    as_json: bool,
) -> None:
    """End what has expired, and what belongs to runs that are over or whose process is gone; see until it is gone."""
    from rb_core.check import non_negative
    from rb_core.collecting import UncollectedEstate, check_seen, collect
    from rb_core.estate import check_run
    from rb_plugins import show
    from rb_plugins.belongings import gc_answer, gc_table
    from rb_plugins.terms import asked_seconds

    patience_s = non_negative("--timeout", asked_seconds(timeout, key="--timeout"))
    session = open_session()
    with _opened(session, provider) as (estate, runs):
        if run_ is not None:
            check_run("--run", run_, runs())
        regions = _regions(session, estate, region, all_regions)
        collected = collect(
            estate, regions, runs, session.clock, run=run_, dry_run=dry_run, patience_s=patience_s
        )  # fmt: skip
    check_seen(collected)
    if as_json:
        show.answer(gc_answer(collected, runs(), dry_run=dry_run))
    else:
        show.table(gc_table(collected, dry_run=dry_run))
    if collected.troubles:
        raise UncollectedEstate(collected.troubles)


@command
@click.argument("side", type=click.Choice(["driver", "node"]))
@PROVIDER
@click.option("--role", default=None, help="Name of the nodes' role; rubberband-node by default.")
@click.option("--storage", default="", help="Where checkpoints are kept, such as s3://bucket/prefix.")
def policy(side: str, provider: str, role: str | None, storage: str, as_json: bool) -> None:
    """Show the rights that the driver, or a node, needs, and what for; --json prints the policy itself."""
    from rb_core.errors import InvalidInput
    from rb_core.providers.ec2.policy import DEFAULT_ROLE, purposes
    from rb_core.providers.ec2.policy import policy as made
    from rb_plugins import show
    from rb_plugins.rights import rights_table

    if provider != "ec2":
        raise InvalidInput("--provider", f"must be 'ec2', which alone has policies, got {provider!r}")
    document = made(side, role=DEFAULT_ROLE if role is None else role, storage=storage)
    if as_json:
        show.answer(document)
    else:
        show.table(rights_table(side, document, purposes(side)))


@contextmanager
def _opened(session: Session, provider: str) -> Iterator[tuple[Estate, Callable[[], Mapping[str, Known]]]]:
    """The estate of a provider, and what tells of its runs that are known here."""
    from rb_plugins.lives import known_runs

    factory = session.manager.estates().choose(provider, key="--provider")
    with closing(factory()) as estate:
        yield estate, partial(known_runs, session.directory, provider, session.clock)


def _regions(session: Session, estate: Estate, region: str | None, all_regions: bool) -> tuple[str, ...]:
    from rb_core.errors import InvalidInput
    from rb_plugins.lives import known_regions

    if region is not None and all_regions:
        raise InvalidInput("--region", "must be left out with --all-regions")
    if region is not None:
        return (region,)
    if all_regions:
        return tuple(estate.regions())
    usual = estate.usual_region()
    found = tuple(sorted({*known_regions(session.directory, estate.name), *([usual] if usual else [])}))
    if not found:
        raise InvalidInput(
            "--region", "is required, or --all-regions: no run on this machine tells of a region, and none is set up"
        )
    return found


def _book(session: Session, provider: str) -> PriceBook | None:
    from rb_core.errors import RubberBandError

    try:
        return session.price_book(provider)
    except RubberBandError:
        return None
