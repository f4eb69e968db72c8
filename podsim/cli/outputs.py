"""Files that a command writes: none of them may be one that it reads, and each is reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from podsim.cli.ending import say
from podsim.errors import PodsimError

if TYPE_CHECKING:
    from podsim.scenario import LoadedScenario


def inputs_of(loaded: LoadedScenario) -> Iterator[tuple[str, Path]]:
    """Purpose and path of every file that a run of a scenario reads."""
    from podsim.result.files import files_read

    yield from files_read(loaded.inputs)
    for purpose, section in (("the model", "model"), ("the arrivals", "serving")):
        name = getattr(getattr(loaded.spec, section, None), "file", None)
        if name is not None:
            yield purpose, loaded.folder / name
            yield purpose, Path(name)


def inputs_of_import(model: str, system: str, output: Path) -> Iterator[tuple[str, Path]]:
    """Purpose and path of every file that an import reads and that its output could overwrite."""
    from podsim.result.files import files_read
    from podsim.scenario import load_hardware

    yield "the input", Path(model)
    if output.exists():
        with suppress(PodsimError):  # the import says what is wrong with the pod
            yield from files_read(load_hardware(system, "pod")[1].inputs)


def tell_written(path: Path | None) -> None:
    """Report on standard error which file was written and how large it is."""
    from podsim.format import format_bytes

    if path is not None and path.is_file():
        say(f"wrote {path}: {format_bytes(path.stat().st_size)}")
    elif path is not None:
        say(f"wrote {path}")
