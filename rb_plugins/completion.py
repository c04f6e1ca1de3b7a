"""The command `completion`: what a shell needs to complete commands, options, run ids and names."""

from __future__ import annotations

import click

from rb_plugins.command import command, main

PROGRAM = "rb-tune"
VARIABLE = "_RB_TUNE_COMPLETE"
"""The variable by which a shell asks the program; click derives it from the program's name."""


@command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str, as_json: bool) -> None:
    r"""Print the script that lets SHELL complete commands, options, run ids, and names that plugins give.

    \b
    To install it, once, with rb-tune on the PATH:
      bash (4.4 and newer)  rb-tune completion bash > ~/.rb-tune-complete
                            echo '. ~/.rb-tune-complete' >> ~/.bashrc
      zsh                   rb-tune completion zsh > ~/.rb-tune-complete
                            echo '. ~/.rb-tune-complete' >> ~/.zshrc    (below compinit)
      fish                  rb-tune completion fish > ~/.config/fish/completions/rb-tune.fish
    """
    from click.shell_completion import get_completion_class

    from rb_core.events import SCHEMA
    from rb_plugins import show

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click knows no completion for {shell}; name bash, zsh or fish")
    # Not `source()`: that of bash starts a bash to see its version, and warns where none is installed.
    complete = found(main, {}, PROGRAM, VARIABLE)
    script = complete.source_template % complete.source_vars()
    if as_json:
        show.answer({"schema": SCHEMA, "shell": shell, "script": script})
    else:
        show.line(script.strip())
