"""The script that draws the charts of pages: Vega, Vega-Lite and Vega-Embed in one, out of the package vl-convert.

The package brings the script with it, so that nothing is fetched. Putting it together takes two seconds, so it is kept
on disk.
"""

from __future__ import annotations

import importlib
import importlib.util
from importlib.metadata import version

from podsim.disk import digest, kept
from podsim.errors import PodsimError

_PACKAGE, _DISTRIBUTION = "vl_convert", "vl-convert-python"


def check_library() -> None:
    """Refuse to write a page, before the work that it is to show.

    Raises:
        PodsimError: The package is not installed.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        what = f"pages need {_DISTRIBUTION}, which is not installed"
        raise PodsimError(what, do="pip install 'podsim[report]'")


def script() -> str:
    """The script, which sets `window.vegaEmbed`.

    Raises:
        PodsimError: The package is not installed.
    """
    check_library()
    key = digest([b"script of pages", version(_DISTRIBUTION).encode()])
    return kept(key, _bundle, str, _text)


def _text(data: object) -> str:
    if not isinstance(data, str):
        raise TypeError(data)
    return data


def _bundle() -> str:
    return str(importlib.import_module(_PACKAGE).javascript_bundle())
