"""``bench/console``: how long a running console takes for each page, list and poll.

Asked from this machine over one kept connection, so that the time is the server's and hardly
anything else. It only reads. See docs/measuring.md.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from bench.errors import Failed
from bench.tables import number, table

# What all tabs read alike serves for two seconds; the server closes an idle connection after two.
STALE_S, _IDLE_S = 2.3, 1.0
HEAD = ("address", "status", "KB", "first", "least", "median", "most", "304 least", "304 median")
PANEL = {"HX-Request": "true", "HX-Request-Type": "partial", "HX-Target": "section#panel"}
_STATUSES = (
    "queued", "running", "succeeded", "failed", "cancelled", "held", "due", "scheduled", "retrying",
)  # fmt: skip


@dataclass
class Client:
    """One browser: a connection that is kept while it is used."""

    url: str
    token: str = ""
    _connection: http.client.HTTPConnection | None = None
    _used: float = 0.0

    def ask(self, path: str, **headers: str) -> tuple[float, http.client.HTTPResponse, bytes]:
        """Milliseconds to the whole answer, and the answer."""
        if self._connection is None or time.monotonic() - self._used > _IDLE_S:
            self._connect()
        assert self._connection is not None
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        began = time.perf_counter()
        self._connection.request("GET", path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read()
        took, self._used = (time.perf_counter() - began) * 1000, time.monotonic()
        if answer.will_close:
            self._connection = None
        return took, answer, body

    def json(self, path: str) -> Any:
        """What the API answers. Raises Failed for anything but 200."""
        _, answer, body = self.ask(path)
        if answer.status != 200:
            raise Failed(f"{path} answers {answer.status}: {body[:200].decode(errors='replace')}")
        return json.loads(body)

    def _connect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        parts = urlsplit(self.url)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=60)
        self._connection.connect()


@dataclass
class Figures:
    """What was seen of one address, in milliseconds.

    ``first``: after a pause in which whatever is shared went stale; ``polls``: of answers that say
    that nothing is new, None for an address that nobody polls.
    """

    path: str
    status: int = 0
    size: int = 0
    first: float = 0.0
    again: list[float] = field(default_factory=list)
    polls: list[float] | None = None

    @property
    def slow(self) -> bool:
        """Whether it is beyond what the console promises."""
        return max(self.first, median(self.again)) > 100 or median(self.polls or [0]) > 5


def places(client: Client) -> Iterator[str]:
    """Every page and list of this installation, with what there is in it."""
    jobs = client.json("/api/jobs?limit=50")["items"]
    if not jobs:
        raise Failed("there are no jobs: flask demo fill --help")
    newest = jobs[0]
    failed = _one(client, "failed")
    running = _one(client, "running")
    kind = quote(newest["kind"])
    yield from ("/", "/jobs", *(f"/jobs?status={status}" for status in _STATUSES))
    yield from (
        f"/jobs?kind={kind}", f"/jobs?status=failed&kind={kind}", "/jobs?kind=no.such",
        "/jobs?status=succeeded&kind=no.such", "/jobs?status=queued&priority=5",
        "/jobs?producer=no-such", "/jobs?key=no-such", f"/jobs?before={newest['id'] // 2}",
        f"/jobs?status=succeeded&before={newest['id'] // 2}", f"/jobs/{newest['id']}",
    )  # fmt: skip
    for one in (failed, running):
        if one:
            yield f"/jobs/{one['id']}"
    yield "/errors"
    if failed:
        yield f"/jobs?fingerprint={failed['error_fingerprint']}"
        yield f"/jobs?status=failed&fingerprint={failed['error_fingerprint']}"
        yield f"/errors/{failed['error_fingerprint']}"
    yield from (
        "/events", "/events?event=failed", "/events?event=purged", f"/events?job={newest['id']}",
        f"/events?kind={kind}", "/events?kind=no.such", "/events?actor=nobody",
        "/kinds", f"/kinds/{kind}", "/workers",
    )  # fmt: skip
    if running:
        yield f"/workers/{quote(running['locked_by'])}"
    yield "/operations"
    operations = client.json("/api/operations?limit=5")["items"]
    yield from (f"/operations/{one['id']}" for one in operations[:1])
    yield from (
        "/operations/new?status=failed", "/audit", "/audit?verb=queue", "/audit?verb=cancel",
        "/audit?actor=user:nobody", "/audit?" + urlencode({"since": "2h"}), "/system", "/settings",
        "/help", "/go?q=" + kind, f"/go?q={newest['id']}",
    )  # fmt: skip
    yield from (
        "/api/jobs", "/api/jobs?limit=500", "/api/jobs?status=failed&count=true",
        "/api/jobs?due=true&count=true", f"/api/jobs?kind={kind}&count=true",
        f"/api/jobs/{newest['id']}", f"/api/jobs/{newest['id']}/events",
        f"/api/jobs/{newest['id']}/why", "/api/events", "/api/events?after=now", "/api/kinds",
        "/api/operations", "/api/stats", "/api/switches", "/api/system", "/api/verdict", "/metrics",
        "/healthz", "/readyz",
    )  # fmt: skip


def _one(client: Client, status: str) -> Any:
    fields = "id,error_fingerprint,locked_by"
    found = client.json(f"/api/jobs?status={status}&limit=1&fields={fields}")["items"]
    return found[0] if found else None


def measure(client: Client, path: str, rounds: int, pause_s: float) -> Figures:
    """Ask for ``path`` cold, again and again, and then as its own script does."""
    found = Figures(path)
    time.sleep(pause_s)
    found.first, answer, body = client.ask(path)
    for _ in range(rounds):
        took, answer, body = client.ask(path)
        found.again.append(took)
    found.status, found.size = answer.status, len(body)
    _, answer, _ = client.ask(path, **PANEL)
    if tag := answer.headers["HX-PTag"]:
        found.polls = _polls(client, path, tag, rounds)
    return found


def _polls(client: Client, path: str, tag: str, rounds: int) -> list[float]:
    """How long it takes to say that nothing is new; none of them where there always is."""
    taken = []
    for _ in range(3 * rounds):
        took, answer, _ = client.ask(path, **PANEL, **{"HX-PTag": tag})
        if answer.status == 304:
            taken.append(took)
        tag = answer.headers["HX-PTag"] or tag
        if len(taken) == rounds:
            break
    return taken


def cells(one: Figures) -> tuple[str, ...]:
    """A row of the table."""
    return (
        f"`{one.path}`" + (" **slow**" if one.slow else ""),
        str(one.status),
        number(one.size / 1000),
        *map(number, (one.first, min(one.again), median(one.again), max(one.again))),
        *_of_polls(one.polls),
    )


def _of_polls(polls: list[float] | None) -> tuple[str, str]:
    if polls is None:
        return "", ""
    return (number(min(polls)), number(median(polls))) if polls else ("always new", "")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the options; ends the process when they are wrong, or after --help."""
    parser = argparse.ArgumentParser(
        prog="bench/console",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure each page and list of a console that runs, and its polls: milliseconds"
        "\nfrom this machine. It only reads. Exits 1 where one takes over 100 ms.",
        epilog="examples:\n  flask demo fill                # a history of three million jobs"
        "\n  gunicorn … wsgi:app & bench/console\n  bench/console --only /audit --rounds 50"
        "\n  QUEUE_TOKEN=… bench/console --url https://queue.example.com",
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--pause", type=float, default=STALE_S, metavar="S",
        help="before the first ask of each; default: %(default)s",
    )  # fmt: skip
    parser.add_argument("--only", default="", metavar="TEXT", help="addresses that begin so")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Measure, print the table; return the exit status."""
    options = parse(words)
    client = Client(options.url, os.environ.get("QUEUE_TOKEN", ""))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"Milliseconds; load average of this machine: {load}\n\n{table(HEAD, [])}", flush=True)
    slow = False
    for path in dict.fromkeys(places(client)):
        if path.startswith(options.only):
            found = measure(client, path, options.rounds, options.pause)
            slow = slow or found.slow
            print("| " + " | ".join(cells(found)) + " |", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failed, OSError, http.client.HTTPException) as error:
        print(f"bench/console: {error}", file=sys.stderr)
        sys.exit(2)
