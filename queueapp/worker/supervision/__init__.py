"""One process that starts worker processes, hears them, restarts them, and ends them in time."""

from queueapp.worker.supervision.lifeline import Lifeline, Word
from queueapp.worker.supervision.supervisor import Supervisor

__all__ = ["Lifeline", "Supervisor", "Word"]
