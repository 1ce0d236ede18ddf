"""A producer over HTTP: ``api_client PORT CONNECTIONS N`` posts N jobs, one a request.

Prints how long that took and how many were created. Plain ``http.client`` on connections that stay
open: the client shares the machine with the server, so it should cost little.
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import threading
import time

from bench.adaptors.harness import PAD, say


def post_all(port: int, numbers: itertools.count[int], total: int, made: list[int]) -> None:
    """Post on one connection until the shared ``numbers`` reach ``total``."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    created = 0
    while (job := next(numbers)) < total:
        body = json.dumps({"kind": "bench.noop", "payload": {"n": job, "pad": PAD}})
        connection.request("POST", "/api/jobs", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        created += answer.status == 201
    connection.close()
    made.append(created)


def main(port: int, connections: int, total: int) -> None:
    """Share ``total`` jobs among as many threads as there are connections."""
    numbers, made = itertools.count(), list[int]()
    threads = [
        threading.Thread(target=post_all, args=(port, numbers, total, made))
        for _ in range(connections)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(n=total, secs=time.perf_counter() - began, created=sum(made))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
