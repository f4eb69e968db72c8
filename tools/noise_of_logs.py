"""Prints how much weight updates of logged runs differ, and what the constants of noise say of them."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.specs.noise import Noise
from podsim.validation.intervals import LoggedRuns, logged_runs
from podsim.validation.noise import Spread, spread_of
from podsim.validation.noise_fit import expected, noise_fits
from podsim.validation.show_fits import show_fits
from podsim.validation.tables import markdown

_LOGGED = (
    *("submission", "hosts", "machines", "update [ms]", "updates", "calls", "cv of blocks", "per update, independent"),
    *("per update, correlated", "lag 1", "skew", "first block [s]", "slowest first", "drift", "between runs"),
)
_PREDICTED = (
    *("submission", "role", "machines", "call, usual [ms]", "call [ms]", "predicted", "cv of neighbours", "predicted"),
    *("late evaluations", "predicted", "waits for the latest [ms]"),
)


def main() -> None:
    """Print both tables, then the constants fitted again."""
    found = [(each, spread_of(each)) for each in logged_runs()]
    print(markdown([_LOGGED, *(tuple(_logged(row)) for _, row in found)]))
    print(markdown([_PREDICTED, *(tuple(_predicted(row, _noise(each))) for each, row in found)]))
    print(show_fits(noise_fits()))


def _noise(logged: LoggedRuns) -> Noise:
    assert logged.spec.software.noise
    return logged.spec.software.noise


def _logged(row: Spread) -> Iterator[str]:
    alone = row.variation * row.updates**0.5
    yield from (row.scenario, str(row.hosts), str(row.machines), f"{row.update_s * 1e3:.1f}")
    yield from (
        f"{row.updates:.0f}",
        f"{row.calls:.0f}",
        f"{row.variation:.2%}",
        f"{alone:.1%}",
        f"{row.variation:.2%}",
    )
    yield from (f"{row.correlation:+.2f}", f"{row.skewness:+.1f}", f"{row.first_s:+.2f}", f"{row.worst_first_s:+.1f}")
    yield from (f"{row.drift:+.1%}", f"{row.between_runs:.2%}")


def _predicted(row: Spread, noise: Noise) -> Iterator[str]:
    say, block_s = expected(row, noise), row.update_s * row.updates
    yield from (row.scenario, row.role, str(row.machines), f"{row.usual_call_s * 1e3:.1f}", f"{row.call_s * 1e3:.1f}")
    yield from (f"{say.call_s * 1e3:.1f}", f"{row.call_s * row.calls**0.5 / block_s:.2%}", f"{say.block_variation:.2%}")
    yield from (str(row.late_calls), f"{say.late_calls:.1f}", f"{say.wait_s * 1e3:.1f}")


if __name__ == "__main__":
    main()
