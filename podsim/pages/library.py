"""The script that draws the charts of pages: Vega, Vega-Lite and Vega-Embed in one, out of the package vl-convert.

The package brings the script with it, so that nothing is fetched. Putting it together takes two seconds, so it is kept
on disk.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import partial

from podsim.disk import digest, kept, library
from podsim.errors import PodsimError

_PACKAGE = "vl_convert"


def check_library() -> None:
    """Refuse to write a page, before the work that it is to show.

    Raises:
        PodsimError: The package is not installed.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        what = "pages need vl-convert-python, which is not installed"
        raise PodsimError(what, do="pip install 'podsim[report]'")


def script() -> str:
    """The script, which sets `window.vegaEmbed`.

    Raises:
        PodsimError: The package is not installed.
    """
    check_library()
    version = library(_PACKAGE).parent.parent.glob("vl_convert_python-*.dist-info")
    key = digest([b"script of pages", *(path.name.encode() for path in sorted(version))])
    return kept(key, _bundle, str, partial(str))


def _bundle() -> str:
    return str(importlib.import_module(_PACKAGE).javascript_bundle())
