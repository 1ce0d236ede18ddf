"""What bounds the drain, in plain words. Pure: figures in, a sentence out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """A worker's turn, in seconds: it settles what has finished and claims anew, in one commit.

    ``commit``: what a small one takes on the idle server; ``logging``: of the time that the server
    was at work, the share that waited for its log to reach the disk, or a standby. ``cpu``: the
    worker's own. None: too few jobs ran to tell.
    """

    whole: float
    round_trip: float
    commit: float
    cpu: float | None
    logging: float | None = None

    def parts(self) -> dict[str, float]:
        """The seconds of each part; what remains is the server at work on the statements."""
        cpu = self.cpu or 0.0
        served = max(self.whole - self.round_trip - cpu, 0.0)
        if self.logging is None:
            # The probe contains a round trip, which costs its time once.
            commit = min(max(self.commit - self.round_trip, 0.0), served)
        else:
            commit = served * self.logging
        known = {"commit": commit, "round_trip": self.round_trip, "worker_cpu": cpu}
        return known | {"server": served - commit}

    @property
    def largest(self) -> str:
        """The name of the largest part."""
        parts = self.parts()
        return max(parts, key=lambda name: parts[name])


def sentence(turn: Turn | None, *, server_here: bool, cpus: int) -> str:
    """One line for people."""
    if turn is None:
        return "too few jobs to tell: give more --jobs"
    name = turn.largest
    took = f"{turn.parts()[name] * 1000:.2f} of the {turn.whole * 1000:.2f} ms of a worker's turn"
    shared = f", on the same {cpus} CPUs as the workers" if server_here else ""
    return {
        "commit": f"the commit time: {took} wait for the server's log to be on disk",
        "round_trip": f"the round trip: {took} are the way to the server and back",
        "worker_cpu": f"CPU of the worker: {took} are its own work"
        + (f", on {cpus} CPUs that the server shares" if server_here else "; try more --processes"),
        "server": f"the server: {took} go into the statements themselves{shared}",
    }[name]
