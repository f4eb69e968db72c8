"""Process of the command line, `podsim` or `python -m podsim`; signals end it without a traceback."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_BY_SIGNAL = 128
_MOMENT_S = 0.02


def main() -> None:
    """Run the command line and end the process."""
    received: list[int] = []

    def unwind(number: int, _frame: FrameType | None) -> None:
        """Turn a signal into an exit, so that a file that is being written is removed."""
        received.append(number)
        sys.unraisablehook = send_again
        sys.exit(_BY_SIGNAL + number)

    def send_again(_: object) -> None:
        """Send the interrupt again a moment later, because this one was lost in a callback."""
        from threading import Timer

        timer = Timer(_MOMENT_S, os.kill, (os.getpid(), received[0]))
        timer.daemon = True
        timer.start()

    heeded = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    for each in heeded:
        signal.signal(each, unwind)
    try:
        _run_command()
    except BaseException:
        # Libraries may have converted the interruption to another error.
        if received:
            sys.exit(_BY_SIGNAL + received[0])
        raise
    finally:
        # Nothing is left to clean up, so a signal may end the interpreter at once.
        for each in heeded:
            signal.signal(each, signal.SIG_DFL)


def _run_command() -> None:
    """Run the requested command; plain runs skip the parser, which is slow to import."""
    name, *words = sys.argv[1:] or [""]
    is_plain = not any(word.startswith("-") for word in words) and "_PODSIM_COMPLETE" not in os.environ
    if name == "run" and is_plain and len(words) == 1:
        from podsim.cli.ending import run_to_the_end
        from podsim.cli.running import run_plainly

        sys.exit(run_to_the_end(lambda: run_plainly(*words)))
    if name == "list" and is_plain:
        from podsim.cli.ending import run_to_the_end
        from podsim.cli.running import print_list

        sys.exit(run_to_the_end(lambda: print_list(words)))
    from podsim.cli.app import main as command_line

    command_line()


if __name__ == "__main__":
    main()
