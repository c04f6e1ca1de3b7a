"""The command `init`: a small experiment to start from."""

from __future__ import annotations

from pathlib import Path

import click

from rb_plugins.command import command


@command
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option(
    "--kind",
    type=click.Choice(["pytorch", "sklearn", "optuna", "ray"]),
    default=None,
    help="With what; by default the first of these that is installed.",
)
@click.option("--force", is_flag=True, help="Rename files that are in the way to NAME.old1, and so on.")
def init(folder: Path, kind: str | None, force: bool, as_json: bool) -> None:
    """Write a small experiment to start from into FOLDER (this one by default); overwrites nothing."""
    from rb_core.events import SCHEMA
    from rb_core.providers.machine import devices
    from rb_plugins import show
    from rb_plugins.installed import install_command
    from rb_plugins.starters import STARTERS, next_commands, usual_kind, write_starter

    starter = STARTERS[kind or usual_kind()]
    written = write_starter(starter, folder, slots=len(devices()), force=force)
    commands = next_commands(starter, folder)
    if as_json:
        show.answer(
            {
                "schema": SCHEMA,
                "kind": starter.kind,
                "files": [str(path) for path in written],
                "kept": {str(path): str(aside) for path, aside in written.items() if aside is not None},
                "lacks": list(starter.lacks),
                "install": install_command(*starter.install) if starter.lacks else None,
                "next": list(commands),
            }
        )
        return
    for path, aside in written.items():
        show.line(f"wrote {path}" + (f" (what was there is {aside.name})" if aside is not None else ""))
    if starter.lacks:
        show.line(f"\nstill to be installed, as below: {', '.join(starter.lacks)}")
    show.line("\nNext:")
    for line in commands:
        show.line(f"  {line}")
