"""Children of a command that end with it."""

from __future__ import annotations

import os
import signal

import pytest

from queueapp.commands import children


class Ended(Exception):
    """In place of the end of the process."""


@pytest.mark.parametrize("refusal", [ProcessLookupError, PermissionError])
def test_a_child_ends_once_its_parent_is_gone_or_its_number_is_somebody_elses(
    monkeypatch: pytest.MonkeyPatch, refusal: type[OSError]
) -> None:
    def kill(_pid: int, _number: int) -> None:
        raise refusal

    def killpg(group: int, number: int) -> None:
        assert (group, number) == (0, signal.SIGKILL)
        raise Ended

    monkeypatch.setattr(children, "_LOOK_EVERY_S", 0)
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(os, "killpg", killpg)

    with pytest.raises(Ended):
        children._look_for(1)
