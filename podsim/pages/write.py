"""Writing a page: refused before the work if it cannot be, and written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from podsim.errors import OutputError
from podsim.pages.html import as_html
from podsim.pages.library import check_library
from podsim.pages.parts import Page
from podsim.result.files import check_not_read, check_writable, write_atomically

SUFFIXES: Final = (".html", ".htm")


def check_page_path(path: str | Path) -> None:
    """Refuse a path that cannot hold a page, before the work whose answer it is to show.

    Raises:
        OutputError: The suffix is not one of HTML, or the path cannot be written.
        PodsimError: The script that draws charts is not installed.
    """
    suffix = Path(path).suffix
    if suffix.lower() not in SUFFIXES:
        what = f"`{suffix}` is not a format for pages" if suffix else "the name of a page needs a suffix"
        raise OutputError(what, where=str(path), do=f"end the name in {' or '.join(SUFFIXES)}")
    check_writable(path)
    check_library()


def write_page(page: Page, path: str | Path) -> None:
    """Write a page; the same bytes for the same answer.

    Raises:
        OutputError: It cannot be written, or is a file that the answer stands on.
        PodsimError: The script that draws charts is not installed.
    """
    check_page_path(path)
    check_not_read(path, "report", page.inputs)
    write_atomically(path, as_html(page).encode(errors="replace"))
