"""Write the page of all commands from the program: ``python docs/commands.py``."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from naysay.cli import app

PAGE = Path(__file__).with_name("commands.md")
HEAD = """# Commands

This page is generated from the program; `naysay COMMAND --help` shows the same. [From a file to a
model](command-line.md) shows the commands at work.
"""


def find_commands(group: Any, *path: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the object of every command below a group."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from find_commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


def write_table(head: str, rows: list[tuple[str, str]]) -> list[str]:
    cells = [tuple(each.replace("|", r"\|") for each in row) for row in rows]
    return [f"| {head} | |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in cells), ""]


def describe(name: str, command: Any) -> str:
    """Describe a command: what it does, its arguments and options, and its example."""
    about, _, example = (inspect.getdoc(command.callback) or "").partition("Example:")
    lines = [f"## naysay {name}", "", about.strip(), ""]
    arguments, panels = [], {}
    for each in command.params:
        if each.param_type_name == "argument":
            arguments.append((each.metavar or each.name.upper(), each.help or ""))
            continue
        takes_value = "" if each.is_flag else f" {each.metavar or 'VALUE'}"
        text = each.help + (" Required." if each.required else "")
        shown = each.show_default if isinstance(each.show_default, str) else each.default
        if shown is not None and shown is not False:
            text += f" Default: `{shown}`."
        panel = getattr(each, "rich_help_panel", None) or "Options"
        panels.setdefault(panel, []).append((f"{each.opts[0]}{takes_value}", text))
    if arguments:
        lines += write_table("Argument", arguments)
    for panel, options in panels.items():
        lines += write_table(panel, options)
    shell = [line.strip() for line in example.splitlines() if line.strip()]
    return "\n".join([*lines, "```text", *shell, "```", ""])


def make_page() -> str:
    commands = find_commands(typer.main.get_command(app))
    return "\n".join([HEAD, *(describe(name, command) for name, command in commands)])


if __name__ == "__main__":
    PAGE.write_text(make_page(), "utf-8")
