"""Base class of answers in Python: printed lines, tables in a notebook, charts, and pandas frames."""

from __future__ import annotations

import json
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
    """Base class of answers: results of runs, and of `compare`, `sweep`, `plan`, `check` and `whatif`."""

    __slots__ = ()
    COLUMNS: ClassVar[tuple[str, ...] | None] = None
    """Columns of a frame; None if they are the keys of its rows."""

    @abstractmethod
    def _summary_lines(self) -> Iterable[str]:
        """Return the lines of `repr`, at most four."""

    @abstractmethod
    def report(self) -> Report:
        """Return the answer as data: a verdict, headline figures, and sections of text, tables and charts."""

    @abstractmethod
    def _records(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the frame as mappings."""

    def _units(self) -> Mapping[str, str]:
        """Return the units of columns that are not metrics."""
        return {}

    def _currency(self) -> str:
        """Return the currency of costs; empty if there are none."""
        return ""

    def __repr__(self) -> str:
        """Return a summary of at most five lines, with the methods that show more."""
        more = f"{type(self).__name__}: .plot(), .to_frame(); a notebook shows its tables"
        return "\n".join(short(line) for line in (*self._summary_lines(), more))

    def text(self) -> str:
        """Return the short answer for a terminal of 100 columns."""
        from podsim.show.text import report_as_text

        return report_as_text(self.report())

    def markdown(self) -> str:
        """Return the short answer in Markdown."""
        from podsim.show.markdown import report_as_markdown

        return report_as_markdown(self.report())

    def _repr_html_(self) -> str:
        """Return the short answer as HTML for notebooks."""
        from podsim.show.html_page import report_as_html

        return report_as_html(self.report())

    def plot(self) -> Figure:
        """Return the charts of `--plot` as a matplotlib figure, which a notebook shows.

        Raises:
            PodsimError: There is nothing to draw.
        """
        return figure_of_sheet(self.report().sheet())

    def to_frame(self) -> DataFrame:
        """Return a pandas frame with the units of its columns in `attrs["unit"]`."""
        from podsim.show.frames import frame_of

        return frame_of(self._records(), self._units(), self._currency(), self.COLUMNS)


class JsonAnswer(Answered):
    """Base class of answers that can be written as JSON."""

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> Mapping[str, object]:
        """Return plain types."""

    def to_json(self) -> str:
        """Return `to_dict()` as JSON text; equal answers give equal bytes."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)


def figure_of_sheet(sheet: Sheet) -> Figure:
    """Return a figure of charts in podsim's style, independent of the user's matplotlib configuration."""
    from podsim.show.matplotlib_charts import figure_of

    return figure_of(sheet)
