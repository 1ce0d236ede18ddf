"""The end of a process that may not be able to end itself."""

from __future__ import annotations

import faulthandler
import os


def end_within(seconds: float) -> None:
    """End this process by then, whatever its threads do; asked again, the last word counts.

    A handler can leave a connection on which the driver turns for ever, and the main thread with it
    as soon as it touches it. The clock is no thread of the interpreter. It writes where each thread
    is, and the exit status is 1.
    """
    try:
        # Of its own: a handler may have closed the stream.
        descriptor = os.dup(2)
    except OSError:
        descriptor = os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(seconds, exit=True, file=descriptor)
