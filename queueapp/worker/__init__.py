"""``flask work``: threads that claim, run, renew, sweep and keep house, each one tick at a time."""

from queueapp.worker.runtime import Worker
from queueapp.worker.sessions import clean_sessions
from queueapp.worker.terms import Terms
from queueapp.worker.wakeup import Wakeup

__all__ = ["Terms", "Wakeup", "Worker", "clean_sessions"]
