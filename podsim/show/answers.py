"""Answers in Python: a few lines where they are printed, tables in a notebook, a chart, and a frame of pandas."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from podsim.escaped import short
from podsim.report.chart import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from podsim.report.report import Report


class Answered:
    """What answers have in common: results of runs, and those of `compare`, `sweep`, `plan`, `check` and `whatif`.

    A class of them says what is told of it in a line or two, what it reports, and what its rows are.
    """

    __slots__ = ()
    COLUMNS: ClassVar[tuple[str, ...] | None] = None
    """Columns of a frame without a row; those of its rows if left out."""

    @abstractmethod
    def _told(self) -> Iterable[str]:
        """Lines that say what was found."""

    @abstractmethod
    def report(self) -> Report:
        """The answer as data: a sentence, figures, and sections of tables and charts."""

    @abstractmethod
    def _records(self) -> Sequence[Mapping[str, Any]]:
        """What a frame holds, a mapping for each row."""

    def _units(self) -> Mapping[str, str]:
        """Units of columns that do not follow from their names."""
        return {}

    def _currency(self) -> str:
        """In which its costs are."""
        return ""

    def __repr__(self) -> str:
        """Five lines at most: what was found, and where the rest is."""
        more = f"{type(self).__name__}: .plot(), .to_frame(); a notebook shows its tables"
        return "\n".join(short(each) for each in (*self._told(), more))

    def text(self) -> str:
        """The short answer for a terminal of 100 columns."""
        from podsim.show.text import report_as_text

        return report_as_text(self.report())

    def markdown(self) -> str:
        """The short answer in Markdown."""
        from podsim.show.markdown import report_as_markdown

        return report_as_markdown(self.report())

    def _repr_html_(self) -> str:
        """The short answer, for notebooks."""
        from podsim.show.html_page import report_as_html

        return report_as_html(self.report())

    def plot(self) -> Figure:
        """The charts of `--plot`, as a figure of matplotlib, which a notebook shows.

        Raises:
            PodsimError: There is nothing to draw.
        """
        return figure_of_sheet(self.report().sheet())

    def to_frame(self) -> DataFrame:
        """A frame of pandas, with the units of its columns in `attrs["unit"]`."""
        from podsim.show.frames import frame_of

        return frame_of(self._records(), self._units(), self._currency(), self.COLUMNS)


def figure_of_sheet(sheet: Sheet) -> Figure:
    """A figure of charts, which looks as that of a file whatever the user's own configuration of matplotlib says."""
    from podsim.show.matplotlib_charts import figure_of

    return figure_of(sheet)
