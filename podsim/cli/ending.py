"""How a command ends: exit codes, and streams that are closed, full, or without a reader."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from podsim.errors import InfeasibleError, PodsimError
from podsim.escaped import terminal

EXIT_CODES: Final = {
    0: "done",
    1: "a bug of podsim, with a traceback",
    2: "an input, an output or the command line is wrong, or a number is missing",
    3: "the plan is impossible, which is an answer",
    4: "predictions are beyond the limits that were given, worse under `compare --fail-on worse`, or not reproduced",
    5: "`podsim check`: nothing was compared, so that nothing can be said to hold",
    130: "interrupted",
    141: "the reader of the output has gone, as in a pipe to `head`; there is no message",
    143: "told to terminate",
}
"""What each means."""
BEYOND_LIMITS: Final = 4
NOTHING_COMPARED: Final = 5
ERROR, _INFEASIBLE, INTERRUPTED, _NO_READER = 2, 3, 130, 141
_NO_MEMORY: Final = (
    "there is not enough memory for this\n  do: leave `--explicit` out, or make the model or pod smaller"
)


class _ClosedOutput(io.TextIOBase):
    """Stands for a standard output that was closed from the start, so that writing to it is an error."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def run_to_the_end(command: Callable[[], object]) -> int:
    """Run a command, and give its exit code; what a user can mend is printed without a traceback."""
    try:
        if sys.stdout is None:
            sys.stdout = _ClosedOutput()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a table without its bars is better than none
                stream.reconfigure(errors="replace")
        code = command()
        sys.stdout.flush()
    except PodsimError as error:
        say(f"error: {error}")
        return _INFEASIBLE if isinstance(error, InfeasibleError) else ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return _NO_READER
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer met it first
            _discard_output()
            return _NO_READER
        raise
    except OSError as error:
        _discard_output()
        say(f"error: {_of_the_system(error)}")
        return ERROR
    except MemoryError:
        say(f"error: {_NO_MEMORY}")
        return ERROR
    return code if isinstance(code, int) else 0


def print_data(text: str) -> None:
    """Print what programs read: in UTF-8 whatever the terminal speaks, so that nothing of it is replaced."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # of a name that is not text in UTF-8
    sys.stdout.write(text)
    sys.stdout.flush()


def say(text: str) -> None:
    """Write a message to standard error, if that can be written to."""
    with suppress(OSError):
        print(terminal(text), file=sys.stderr, flush=True)  # noqa: T201


def _of_the_system(error: OSError) -> str:
    """Return the message of an operating system's error; an error without a file name comes from printing."""
    reason = error.strerror or type(error).__name__
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}\n  do: check the path and its permissions"
    cure = "redirect it to a place with room, or to /dev/null"
    return f"standard output cannot be written: {reason}\n  do: {cure}"


def _discard_output() -> None:
    """Drop what is still buffered, so that the interpreter does not complain about it when it ends."""
    with suppress(OSError, ValueError, AttributeError):  # there may be none
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.__stdout__.fileno())  # type: ignore[union-attr]
        os.close(nowhere)
