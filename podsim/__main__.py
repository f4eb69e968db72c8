"""The process of the command line, `podsim` or `python -m podsim`: signals end it without a traceback."""

from __future__ import annotations

import signal
import sys
from types import FrameType

_BY_SIGNAL = 128


def main() -> None:
    """Run the command line and end the process."""
    received: list[int] = []

    def unwind(number: int, _frame: FrameType | None) -> None:
        """Turn a signal into an exit, so that a file that is being written is removed."""
        received.append(number)
        sys.unraisablehook = lambda _: None  # where it cannot go up, as in the callback of a weak reference
        sys.exit(_BY_SIGNAL + number)

    heeded = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    for each in heeded:
        signal.signal(each, unwind)
    try:
        from podsim.cli import main as command_line

        command_line()
    except BaseException:
        # Libraries may have made another error of the interruption.
        if received:
            sys.exit(_BY_SIGNAL + received[0])
        raise
    finally:
        # Nothing is left to tidy up: the interpreter may be ended while it ends.
        for each in heeded:
            signal.signal(each, signal.SIG_DFL)


if __name__ == "__main__":
    main()
