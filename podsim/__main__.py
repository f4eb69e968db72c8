"""The process of the command line, `podsim` or `python -m podsim`: a signal ends it without a traceback at any moment."""

from __future__ import annotations

import signal
import sys
from types import FrameType

_INTERRUPTED, _TERMINATED = 130, 143


def main() -> None:
    """Run the command line and end the process."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        from podsim.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        # Nothing is left to tidy up: the interpreter may be ended while it ends.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    """Unwind, so that a file that is being written is removed."""
    sys.exit(_TERMINATED)


if __name__ == "__main__":
    main()
