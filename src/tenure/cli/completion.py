"""The command completion: prints a script that lets a shell complete commands, options and names."""

from __future__ import annotations

import click

__all__ = ["completion"]

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    r"""Print a script that lets SHELL complete commands, options and the names of queues and tasks.

    \b
    Put one line into the file that your shell reads at its start:
      ~/.bashrc                    eval "$(tenure completion bash)"
      ~/.zshrc                     eval "$(tenure completion zsh)"
      ~/.config/fish/config.fish   tenure completion fish | source
    """
    from click.shell_completion import get_completion_class

    from tenure.cli import main

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(main, {}, "tenure", "_TENURE_COMPLETE").source())
