"""Plain tables with a title."""

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text


def titled(title: str, table: Table, *lines: str) -> Group:
    """A table below its title and above a few lines of text."""
    return Group(Text(title, style="bold"), table, *(Text(line, style="dim") for line in lines))


def plain_table(*headers: str) -> Table:
    """A table without a frame; a header that begins with `>` is of a right-aligned column."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, padding=(0, 1))
    for header in headers:
        is_number = header.startswith(">")
        table.add_column(header.removeprefix(">"), justify="right" if is_number else "left", no_wrap=is_number)
    return table


def heading(name: str, description: str, version: str) -> Text:
    """What a report is about: its description if there is one, and where it comes from."""
    origin = (f"{name}, podsim {version}", "dim")
    return Text.assemble((description, "bold"), "\n", origin) if description else Text.assemble(origin)
