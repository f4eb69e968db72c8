"""`pytest --podsim scenarios/`: every scenario and variant in the given paths is a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from podsim.study.check.measure import Case
    from podsim.study.check.verdict import Baseline

_BASELINE: Final = "podsim-baseline.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin; without `--podsim`, no scenario is collected and podsim is not imported."""
    group = parser.getgroup("podsim")
    group.addoption("--podsim", action="store_true", help="check podsim scenarios in the given files and folders")
    group.addoption("--podsim-baseline", metavar="FILE", help=f"what was agreed on; by default the nearest {_BASELINE}")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Collect YAML files that hold scenarios."""
    if not parent.config.getoption("--podsim") or file_path.suffix not in {".yaml", ".yml"}:
        return None
    from podsim.study.check.measure import is_scenario

    return ScenarioFile.from_parent(parent, path=file_path) if is_scenario(file_path) else None


class ScenarioFile(pytest.File):
    """Pytest collector of a scenario file."""

    def collect(self) -> Iterator[ScenarioItem]:
        """Yield an item for the scenario, and one for each variant."""
        from podsim.study.check.measure import cases_of, read_baseline

        near = (folder / _BASELINE for folder in self.path.parents)
        file = self.config.getoption("--podsim-baseline") or next((path for path in near if path.is_file()), None)
        baseline = None if file is None else read_baseline(Path(file))
        for case in cases_of([self.path], Path(file or self.path).parent):
            yield ScenarioItem.from_parent(self, name=case.name, case=case, baseline=baseline)


class ScenarioItem(pytest.Item):
    """Pytest item of one case; it fails if a metric changed or is not as expected."""

    def __init__(self, *, case: Case, baseline: Baseline | None, **rest: Any) -> None:
        super().__init__(**rest)
        self._case, self._baseline = case, baseline

    def runtest(self) -> None:
        """Simulate the case, and compare it with the baseline and its expectations."""
        from podsim.study.check.measure import measured
        from podsim.study.check.verdict import verdict_on

        agreed = self._baseline and self._baseline.for_case(self._case.name)
        verdict = verdict_on({self._case.name: measured(self._case)}, agreed, "the baseline" if agreed else "")
        if not verdict.holds:
            pytest.fail(verdict.text(), pytrace=False)
        if verdict.is_empty:
            pytest.skip(verdict.headline)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the location of the case."""
        return self.path, None, f"podsim: {self.name}"
