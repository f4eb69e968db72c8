"""Parts of messages: values as written, known names, and suggestions."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

_LONGEST = 40
_YAML = frozenset(",:{}[]#&*!|>'\"%@`")
"""Characters with a meaning in YAML."""
_KINDS = {
    "ipu": "IPU",
    "software": "software stack",
}


def quoted(value: Any) -> str:
    """Return a value as a message shows it.

    >>> quoted(3.5), quoted(True), quoted(None), quoted([1, 2])
    ('`3.5`', '`true`', 'nothing', 'a list')
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = " ".join(str(value).split())
    return f"`{text[:_LONGEST]}…`" if len(text) > _LONGEST else f"`{text}`"


def dotted(path: Iterable[object]) -> str:
    """Return a key path with dots.

    >>> dotted(["run", "epochs"])
    'run.epochs'
    """
    return ".".join(map(str, path))


def setting(path: Iterable[object], value: Any) -> str:
    """Return the command-line option that sets a key, ready to paste into a shell.

    >>> setting(["system", "host_count"], 4), setting(["system", "machine", "ipu", "clock"], "2 GHz")
    ('--set system.host_count=4', "--set 'system.machine.ipu.clock=2 GHz'")
    """
    return f"--set {shlex.quote(f'{dotted(path)}={flow(value)}')}"


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if isinstance(value, str) and set(text) & _YAML else text


def nearest(written: str, known: Iterable[str]) -> str | None:
    """Return the known name that was most likely meant, or None if no name is similar.

    Swapped characters are a likelier slip than a missing one; case is ignored.

    >>> nearest("bow_pod46", ["bow_pod4", "bow_pod64"]), nearest("BOW", ["bow"]), nearest("colour", ["size"])
    ('bow_pod64', 'bow', None)
    """
    folded = {name.casefold(): name for name in known}
    given = written.casefold()
    swapped = [name for name in folded if sorted(name) == sorted(given)]
    close = difflib.get_close_matches(given, swapped or folded, n=1)
    return folded[close[0]] if close else None


def known_here(written: str, known: Iterable[str], otherwise: str = "remove it", meant: str = "") -> str:
    """Return the cure for an unknown name: the name that was probably meant, and all known names.

    >>> known_here("colr", ["colour", "size"])
    'did you mean `colour`? known here: colour, size'
    """
    names = list(known)
    if not names:
        return otherwise
    close = meant or nearest(written, names)
    hint = f"did you mean `{close}`?" if close else f"{otherwise};"
    return f"{hint} known here: {', '.join(names)}"


def kind_name(kind: str) -> str:
    """Return the title of a kind of file.

    >>> kind_name("software"), kind_name("pod")
    ('software stack', 'pod')
    """
    return _KINDS.get(kind, kind)


def with_article(kind: str) -> str:
    """Return a kind of file with its article.

    >>> with_article("ipu"), with_article("machine")
    ('an IPU', 'a machine')
    """
    name = kind_name(kind)
    return f"an {name}" if name[0] in "AEIOaeiou" else f"a {name}"


def counted(count: int, word: str) -> str:
    """Return a count with its noun in singular or plural.

    >>> counted(1, "IPU"), counted(4, "IPU")
    ('1 IPU', '4 IPUs')
    """
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def not_one_of(given: Any, known: Sequence[str]) -> tuple[str, str]:
    """Return the problem of a value that is none of the known words, and the cure.

    >>> not_one_of("torsu", ("ladder", "torus"))
    ('`torsu` is not one of `ladder` or `torus`', 'did you mean `torus`?')
    """
    *others, last = (f"`{word}`" for word in known)
    close = nearest(str(given), known)
    what = f"{quoted(given)} is not one of {', '.join(others)} or {last}"
    return what, f"did you mean `{close}`?" if close else "write one of them"
