"""Extension points: functions of a Python file that podsim looks up by name.

A decorator registers a function. A file is loaded by `load_extension` or by `podsim --extend FILE.py`, never because a
scenario names it. Results list the file among their inputs.

>>> schedulers = Registry("scheduler")
>>> @schedulers("one_at_a_time")
... def admit(waiting: int, running: int, size: int, waited_s: float) -> int:
...     return 0 if running else 1
>>> schedulers.names
('one_at_a_time',)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, Generic, TypeVar

from podsim import memo
from podsim.errors import PodsimError

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Registry(Generic[_Function]):
    """Functions of one kind by name; as a decorator, it registers a function."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._known: dict[str, _Function] = {}

    def __call__(self, name: str) -> Callable[[_Function], _Function]:
        """Return a decorator that registers a function under a name; caches without it are dropped."""

        def register(function: _Function) -> _Function:
            if name in self._known:
                what = f"the {self.kind} `{name}` is registered twice"
                raise PodsimError(what, do="give one of the functions another name")
            self._known[name] = function
            memo.forget()
            return function

        return register

    def get(self, name: str) -> _Function | None:
        """Return the function of a name, or None."""
        return self._known.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Registered names."""
        return tuple(self._known)

    def forget(self) -> None:
        """Drop all functions, and caches that were made with them."""
        if self._known:
            self._known.clear()
            memo.forget()


operation_cost: Final = Registry[Callable[..., Any]]("operation")
"""Costs of operations, `cost(op, ipu) -> Account | None`, by the class of the operation, for example `MatMul`.

The cost replaces that of podsim, without its memory and its split; None leaves it unchanged."""
topology: Final = Registry[Callable[..., Iterable[Any]]]("topology")
"""Topologies of a link domain: `connections(system, first, last, **parameters)` yields each connection of a route."""
scheduler: Final = Registry[Callable[[int, int, int, float], int]]("scheduler")
"""Schedulers of requests: `admit(waiting, running, size, waited_s)` returns how many waiting requests join a batch."""
_loaded: dict[Path, tuple[str, str]] = {}  # path as given and SHA-256, by file


def load_extension(path: str | Path) -> None:
    """Run a Python file that registers functions; a file that has been loaded is not run again.

    Raises:
        PodsimError: The file cannot be read or raises an error, or a name is registered twice.
    """
    file = Path(path).resolve()
    if file in _loaded:
        return
    try:
        content = file.read_bytes()
        exec(compile(content, str(file), "exec"), {"__name__": file.stem, "__file__": str(file)})
    except PodsimError as error:
        raise error.with_place(str(path)) from None
    except OSError as error:
        raise PodsimError(f"cannot be read: {error.strerror}", where=str(path), do="name a Python file") from None
    except Exception as error:
        where, what = _place_of(error, file, str(path)), f"{type(error).__name__}: {error}"
        raise PodsimError(what, where=where, do="mend the file, or leave `--extend` out") from error
    _loaded[file] = str(path), sha256(content).hexdigest()


def loaded_files() -> tuple[tuple[str, str], ...]:
    """Return path, as given, and SHA-256 of every file of extensions."""
    return tuple(_loaded.values())


def extension_paths() -> tuple[Path, ...]:
    """Return the absolute path of every file of extensions, for other processes to load."""
    return tuple(_loaded)


def forget_extensions() -> None:
    """Drop all registered functions and loaded files; later runs use podsim's own functions."""
    for registry in (operation_cost, topology, scheduler):
        registry.forget()
    _loaded.clear()


def _place_of(error: Exception, file: Path, path: str) -> str:
    """Return the last line of the file that an error comes from."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(file)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return f"{path}:{line}" if line else path
