"""A result for a person at a terminal: plain text in a file or a pipe, with colours on a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment

from podsim.harmless import terminal
from podsim.result.base import Result
from podsim.show.assumption_table import assumption_table
from podsim.show.tables import Tables, heading
from podsim.show.uncertainty_table import uncertainty_table


class PlainConsole(Console):
    """A console that passes on no control characters, and takes no text for markup."""

    def __init__(self) -> None:
        """Standard output."""
        super().__init__(markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is printed; no character that is left out has a width, so that columns stay where they are."""
        for each in super().render(renderable, options):
            yield each if each.control else Segment(terminal(each.text), each.style)


def print_result(result: Result, tables: Callable[..., Tables], console: Console | None = None) -> None:
    """Print what a result is about, its tables, and what it stands on, with an empty line between them.

    Args:
        result: What to show.
        tables: Makes the tables of such a result; `ascii_only` if its bars have to do without block elements.
        console: Where; standard output if left out.
    """
    target = console or PlainConsole()
    own = tables(result, ascii_only=target.options.ascii_only)
    sections = (heading(result), *own, assumption_table(result.assumptions), uncertainty_table(result.uncertainty))
    shown = [section for section in sections if section is not None]
    target.print(Group(*(Padding(section, (0, 0, 1, 0)) for section in shown[:-1]), shown[-1]))
