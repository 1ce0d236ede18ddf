"""What made jobs are about: kinds, failures, workers and people, none of which exists."""

from __future__ import annotations

from typing import Any

from queueapp.jobs.failure import described
from queueapp.jobs.made import Content
from queueapp.version import VERSION

# As long as a kind may be.
LONG_KIND = "reconcile.marketplace_settlement_statements_against_the_ledger_and_notify_the_finance"
LONG_KIND += "_team_of_gaps"
KINDS = (
    "mail.send", "payment.capture", "webhook.deliver", "search.index", "sync.contact",
    "invoice.render", "push.notify", "image.resize", "sync.inventory", "report.build",
    "mail.digest", "payment.refund", "export.orders", "video.transcode", "cache.warm",
    "import.catalogue", "audit.archive", LONG_KIND, "demo.echo",
)  # fmt: skip
HELD_KIND = "payment.payout"
PEOPLE = ("user:made-ana", "user:made-ben", "user:made-chi")
LIVE = ("made-1:101:a1", "made-2:102:b2", "made-3:103:c3")
# They worked before, and were stopped.
BEFORE = tuple(f"made-{n}:{100 + n}:{n:x}0" for n in range(4, 44))

_HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><div hx-get='/x' hx-trigger=load>"
    "{{7*7}}</textarea></title></pre>"
)
# Class, message (# stands for a number), file and function.
_TOLD = (
    ("ConnectionError", "smtp.example.com:25 refused the connection", "mail", "deliver"),
    ("TimeoutError", "no answer from payments.example.com within 30 s", "payment", "capture"),
    ("KeyError", "'vat_rate'", "invoice", "price_of"),
    ("TemplateError", "'invoice.html' has no block 'total' (order #)", "invoice", "render"),
    ("ValueError", "order # has no lines", "order", "lines_of"),
    ("PermissionError", "[Errno 13] Permission denied: '/srv/export/#.csv'", "export", "write"),
    ("DecodeError", "byte # is not UTF-8", "catalogue", "read"),
    ("HTTPError", "503 Service Unavailable for https://api.example.com/v1/items/#", "sync", "push"),
    ("HTTPError", "429 Too Many Requests, try again in # s", "sync", "pull"),
    ("IntegrityError", "duplicate key (order)=(#) in unique index orders_pkey", "order", "save"),
    ("MemoryError", "cannot allocate # bytes", "video", "transcode"),
    ("AssertionError", "", "audit", "archive"),
)  # fmt: skip


def _errors() -> list[tuple[str, str, str, str]]:
    found = [_error(*one) for one in _TOLD]
    long = "the statement was " + "SELECT a, b FROM orders WHERE id IN (1, 2, 3) AND " * 60 + "true"
    found.append(_error("some.long.module.of.the.shop.DatabaseError" * 4, long, "order", "find"))
    found.append(_error("ExceptionGroup", "x" * 8_000, "search", "index"))
    found.append(_error("MarkupError", _HOSTILE, "mail", _HOSTILE))
    for number in range(15):
        step = chr(ord("a") + number)
        message = f"step {step} of the import has no rule for its column: order #"
        found.append(_error("ImportError", message, "catalogue", f"step_{step}"))
    return found


def _error(name: str, message: str, module: str, function: str) -> tuple[str, str, str, str]:
    trace = "Traceback (most recent call last):\n" + "".join(
        f'  File "/srv/shop/shop/{file}.py", line {line}, in {where}\n    {where}(order)\n'
        for file, line, where in (("jobs", 31, "run"), (module, 58, function))
    )
    whole = described(name, message, f"{trace}{name}: {message}\n")
    return whole.error_class, whole.message, whole.fingerprint, whole.traceback or ""


CONTENT = Content(
    kinds=KINDS,
    held_kind=HELD_KIND,
    plain_kinds=("demo.echo",),
    errors=_errors(),
    producers=("shop", "billing", "back-office"),
    workers=LIVE,
    people=PEOPLE,
    hostile={"message": _HOSTILE, _HOSTILE: ["' OR 1=1 --", {"__proto__": "\u202eabc"}]},
)


def sign_of(worker: str) -> dict[str, Any]:
    """What a worker says of itself."""
    return {
        "host": worker.partition(":")[0], "slots": 8, "kinds": [*KINDS, HELD_KIND], "lost": 0,
        "lease_s": 60.0, "release": "", "version": VERSION,
    }  # fmt: skip
