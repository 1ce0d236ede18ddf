"""The main thread is woken by threads and by signals, at whatever moment they come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from queueapp.worker.bell import Bell


def test_ring_ends_the_wait_and_says_nothing() -> None:
    bell = Bell()
    threading.Timer(0.01, bell.ring).start()

    assert bell.wait(30) == []
    assert bell.wait(0) == []


def test_signals_are_heard_in_their_order() -> None:
    bell = Bell()

    with bell.hearing(signal.SIGUSR1, signal.SIGUSR2):
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR2)
        heard = bell.wait(30)

    assert heard == [signal.SIGUSR1, signal.SIGUSR2]
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_for_good_is_deaf_to_repeated_signals_but_not_to_the_end_of_children() -> None:
    with Bell().hearing(signal.SIGUSR1, signal.SIGCHLD, for_good=True):
        pass

    try:
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        assert subprocess.run([sys.executable, "-c", "exit(3)"], check=False).returncode == 3
    finally:
        for number in (signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)


def test_signals_in_the_middle_of_ringing_and_waiting_never_lock_it() -> None:
    bell = Bell()
    done = threading.Event()

    def shower() -> None:
        while not done.is_set():
            os.kill(os.getpid(), signal.SIGUSR1)

    with bell.hearing(signal.SIGUSR1):
        thread = threading.Thread(target=shower)
        thread.start()
        heard = 0
        while heard < 100:
            bell.ring()
            heard += len(bell.wait(0.001))
        done.set()
        thread.join()
