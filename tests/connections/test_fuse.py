"""One thread finds out whether the database answers; the others are told at once."""

from __future__ import annotations

import threading

import psycopg
import pytest

from queueapp.connections import fuse as module
from queueapp.connections.bounded import NoAnswer
from queueapp.connections.fuse import Fuse


def fail(fuse: Fuse) -> None:
    with pytest.raises(psycopg.OperationalError, match="in vain"), fuse.guarding():
        raise psycopg.OperationalError("waited in vain")


def test_quick_refusals_blow_no_fuse() -> None:
    fuse = Fuse()
    fail(fuse)

    with fuse.guarding(), fuse.guarding():
        pass


def test_blown_fuse_lets_one_find_out_and_refuses_the_others_until_it_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SLOW_S", -1.0)
    fuse = Fuse()
    fail(fuse)
    fail(fuse)  # the one that finds out may be any, again and again

    with fuse.guarding():
        refused: list[NoAnswer] = []

        def ask() -> None:
            try:
                with fuse.guarding():
                    pass
            except NoAnswer as error:
                refused.append(error)

        other = threading.Thread(target=ask)
        other.start()
        other.join(10)
    assert len(refused) == 1

    with fuse.guarding(), fuse.guarding():
        pass
