"""What addresses of databases are taken, and what they are turned into."""

from __future__ import annotations

import pytest
from sqlalchemy.engine import make_url

from queueapp.database_address import database_url, place_of


@pytest.mark.parametrize(
    ("text", "host", "port", "attrs"),
    [
        ("postgresql://u:p@one/db", "one", None, None),
        ("postgres://u:p,q@one:5/db?sslmode=require", "one", 5, None),
        ("postgresql://u:p@one,two/db", "one,two", ",", "read-write"),
        ("postgresql://u:p%2Fq@one:1,two:2/db?connect_timeout=3", "one,two", "1,2", "read-write"),
        ("postgresql://u:p@[::1]:1,two/db", "::1,two", "1,", "read-write"),
        ("postgresql://u:p@/db?host=one:1&host=two:2", "one,two", "1,2", "read-write"),
        ("postgresql://u:p@/db?host=one,two&port=1,2", "one,two", "1,2", "read-write"),
        ("postgresql://one:1,two:2/db?target_session_attrs=any", "one,two", "1,2", "any"),
    ],
)
def test_an_address_may_name_several_hosts_and_then_means_the_one_that_takes_writes(
    text: str, host: str, port: object, attrs: str | None
) -> None:
    read = database_url(text)

    url = make_url(read)
    _, arguments = url.get_dialect()().create_connect_args(url)
    assert (arguments["host"], arguments.get("port")) == (host, port)
    assert arguments.get("target_session_attrs") == attrs
    assert arguments["dbname"] == "db"
    # The demo and the tests hand a read address on to other processes.
    assert database_url(read) == read


@pytest.mark.parametrize("text", ["one,two", "postgresql://u:hunter2@one:port/db"])
def test_what_is_no_address_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="expected an address") as refused:
        database_url(text)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("nonsense=1", 'invalid connection option "nonsense"'),
        ("connect_timeout=abc", "connect_timeout: expected a whole number"),
        ("sslmode=banana", "sslmode: expected one of disable, allow"),
        ("sslmode=prefer&sslmode=require", "sslmode is there twice"),
        ("target_session_attrs=readwrite", "target_session_attrs: expected one of any, read-write"),
        ("host=a,b&port=1,2,3", "expected an address"),
    ],
)
def test_an_option_that_no_connection_is_made_with_is_named(option: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        database_url(f"postgresql://u:hunter2@host/db?{option}")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:secret@db.example:5433/queue?sslmode=require", "db.example:5433/queue"),
        ("postgresql://me:secret@db/queue", "db:5432/queue"),
        ("postgresql://me:secret@a:1,b:2/queue", "a:1,b:2/queue"),
        ("postgresql://a,b/queue", "a:5432,b:5432/queue"),
        ("postgresql:///queue?host=/run/pg&user=me&password=secret", "/run/pg/queue"),
        ("postgresql:///queue", "localhost:5432/queue"),
        ("sqlite:////srv/queue.db", "/srv/queue.db"),
    ],
)
def test_where_it_is_can_be_told_without_its_secrets(url: str, place: str) -> None:
    assert place_of(database_url(url)) == place
