"""Prints how much weight updates of logged runs differ, what the constants of noise say of them, and their fit."""

from __future__ import annotations

from podsim.validation.noise_fit import noise_fits
from podsim.validation.show_fits import show_fits
from podsim.validation.show_noise import logged_cells, predicted_cells, rows_of_noise
from podsim.validation.tables import markdown


def main() -> None:
    """Print two tables, then the constants fitted again."""
    rows = rows_of_noise()
    print(markdown(logged_cells(rows)))
    print(markdown(predicted_cells(rows)))
    print(show_fits(noise_fits()), end="")


if __name__ == "__main__":
    main()
