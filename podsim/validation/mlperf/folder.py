"""The folder of the result files of one submission."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from podsim.errors import OutputError
from podsim.result.files import write_atomically


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot hold result files, or holds some already, before anything is simulated.

    Raises:
        OutputError: It is a file, lies in no folder, may not be written, or holds files of that name.
    """
    cure = "give another folder, which is made if its parent exists"
    if folder.exists() and not folder.is_dir():
        raise OutputError("this is a file, not a folder", where=str(folder), do=cure)
    if not folder.exists() and not folder.parent.is_dir():
        raise OutputError(f"the folder `{folder.parent}` does not exist", where=str(folder), do=cure)
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        raise OutputError("cannot be written: no permission", where=str(folder), do=cure)
    if folder.exists() and any(folder.glob("result_*.txt")):
        what = "the folder holds result files already, and a submission is all of those in a folder"
        raise OutputError(what, where=str(folder), do="give an empty or a new folder")


def write_folder(folder: Path, texts: Sequence[str]) -> tuple[Path, ...]:
    """Write `result_0.txt`, `result_1.txt`, ….

    Raises:
        OutputError: The folder cannot hold them.
    """
    check_folder(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        cure = "give another folder"
        raise OutputError(f"cannot be made: {error.strerror}", where=str(folder), do=cure) from error
    paths = tuple(folder / f"result_{index}.txt" for index in range(len(texts)))
    for path, text in zip(paths, texts, strict=True):
        write_atomically(path, text.encode())
    return paths
