"""Matplotlib as charts need it: without a window, and whatever the user's own configuration of it says."""

from __future__ import annotations

import logging
import os
from importlib import import_module

from podsim.errors import PodsimError


def load_matplotlib() -> None:
    """Import matplotlib without a backend of the environment; its complaints about folders do not matter here.

    Raises:
        PodsimError: Its configuration cannot be read.
    """
    os.environ.pop("MPLBACKEND", None)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import_module("matplotlib")
    except (OSError, ValueError, RuntimeError) as error:
        what = f"matplotlib, which draws charts, cannot be loaded: {' '.join(str(error).split())}"
        cure = "mend or remove the file `matplotlibrc` in this folder, or the one that MATPLOTLIBRC names"
        raise PodsimError(what, do=cure) from error
