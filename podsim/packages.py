"""Packages that only some requests need: each is imported when a request needs it, and installed by an extra."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from podsim.errors import PodsimError

OPTIONAL: Final = {
    "distributed": ("distributed", "dask"),
    "google.protobuf": ("protobuf", "chakra"),
    "nicegui": ("nicegui", "ui"),
    "onnx": ("onnx", "onnx"),
    "pyarrow": ("pyarrow", "sweep"),
    "scipy": ("scipy", "sweep"),
    "vl_convert": ("vl-convert-python", "report"),
}
"""Package and extra that bring each optional module."""


def check_package(module: str, what: str, *, where: str | None = None, or_else: str = "") -> None:
    """Raise PodsimError with the pip command if an optional module is not installed.

    Args:
        module: A key of `OPTIONAL`.
        what: Subject of the sentence, with its verb, such as `reading ONNX files needs`.
        where: File that needs the package.
        or_else: Another cure.
    """
    try:
        is_installed = find_spec(module) is not None
    except ImportError:  # its parent is not installed
        is_installed = False
    if not is_installed:
        package, extra = OPTIONAL[module]
        do = f"pip install 'podsim[{extra}]'{or_else and f', or {or_else}'}"
        raise PodsimError(f"{what} the package `{package}`, which is not installed", where=where, do=do)


def optional(module: str, what: str, *, where: str | None = None, or_else: str = "") -> Any:
    """Return an optional module; raise PodsimError with the pip command if it cannot be imported.

    The arguments are those of `check_package`.
    """
    check_package(module, what, where=where, or_else=or_else)
    try:
        return import_module(module)
    except ImportError as error:
        package, extra = OPTIONAL[module]
        reason = str(error).partition("\n")[0]
        message = f"{what} the package `{package}`, which cannot be imported: {reason}"
        raise PodsimError(message, where=where, do=f"pip install --force-reinstall 'podsim[{extra}]'") from error
