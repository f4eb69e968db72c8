"""Builds the compiled engine beside the package; without a C compiler podsim is installed without it.

`PODSIM_PURE=1` leaves the compiler alone and makes a wheel for every platform, which runs on SimPy.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "podsim/engine/_core.c"
ABI = "cp311"
PURE = "PODSIM_PURE"


class CompiledEngine(BuildHookInterface[Any]):
    """Compiles one C file for the limited API of Python 3.11, so that one wheel serves all later versions."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the extension beside its source, and into the wheel."""
        if os.environ.get(PURE) or self.target_name != "wheel":
            return
        made = compiled(Path(self.root))
        if made is None:
            self.app.display_warning("no C compiler: podsim runs on SimPy alone, more slowly")
            return
        name = made.relative_to(self.root).as_posix()
        build_data["pure_python"] = False
        build_data["artifacts"].append(name)
        if version != "editable":
            build_data["tag"] = f"{ABI}-abi3-{platform_tag()}"


def compiled(root: Path) -> Path | None:
    """Return the path of the compiled extension module, or None if it cannot be compiled here."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    extension = Extension(
        "podsim.engine._core",
        [SOURCE],
        define_macros=[("Py_LIMITED_API", "0x030b0000")],
        py_limited_api=True,
        extra_compile_args=[] if sys.platform == "win32" else ["-O3"],
    )
    with tempfile.TemporaryDirectory() as scratch:
        command = build_ext(Distribution({"name": "podsim", "ext_modules": [extension]}))
        command.build_lib, command.build_temp = scratch, f"{scratch}/temp"
        try:
            command.ensure_finalized()
            command.run()
        except Exception as error:
            sys.stderr.write(f"the compiled engine was not built: {error}\n")
            return None
        (made,) = Path(scratch, "podsim", "engine").iterdir()
        target = root / "podsim" / "engine" / made.name
        # A process that runs keeps the file that it has mapped: written over, that would end it.
        fresh = target.with_suffix(f".{os.getpid()}")
        shutil.copyfile(made, fresh)
        fresh.replace(target)
    return target


def platform_tag() -> str:
    """Of the Python that builds, as setuptools has it: `auditwheel` makes manylinux of linux, after it has looked."""
    return re.sub(r"[-.]", "_", sysconfig.get_platform())
