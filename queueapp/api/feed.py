"""The ledger as a feed, for programs that follow everything that happens."""

from __future__ import annotations

from flask import Blueprint, Response

from queueapp.api import answers, describe
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.list_schemas import FeedQuery
from queueapp.api.reading import read_query
from queueapp.auth import Permission, permits
from queueapp.errors import CursorGone
from queueapp.extensions import db
from queueapp.jobs import queries

bp = Blueprint("api_feed", __name__, url_prefix="/api/events")


@bp.get("")
@permits(Permission.READ)
@contract(
    Part.READ,
    {200: Answer("The next lines.", answers.FeedAnswer)},
    query=FeedQuery,
    refuses=(CursorGone,),
    more="Each line once, none left out: keep `next` with what you made of the lines, in one"
    " transaction, and ask again with it. Lines wait until every transaction that began before"
    " theirs has ended.",
    examples=(
        Example("From the oldest line that is kept.", query="limit=2"),
        Example("A cursor behind all that is there now.", query="after=now"),
    ),
)
def feed() -> Response:
    """Follow everything that happens, gap-free: the lines of the ledger in a lasting order."""
    query, session = read_query(FeedQuery), db.session()
    queries.bound_reads(session)
    if isinstance(query.after, str):
        page = queries.end_of_feed(session)
    else:
        page = queries.read_feed(session, query.after, limit=query.limit)
    return describe.json_answer(
        {
            "items": [describe.feed_line(line) for line in page.lines],
            "next": str(page.next),
            "more": page.more,
            "held_back_s": page.held_back_s,
        }
    )
