"""Entries of a setting, or of the file that another one names: one for a token or a person.

White space separates them; in a file ``#`` begins a comment. No message repeats an entry: it may
hold a secret.
"""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from queueapp.errors import SettingError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """One of them, and where it stands: ``entry 2``, ``line 7``."""

    text: str = field(repr=False)
    setting: str
    place: str

    @property
    def parts(self) -> int:
        """How many parts it has between colons."""
        return self.text.count(":") + 1

    def wrong(self, what: str, form: str) -> SettingError:
        """The error that names this entry by its place."""
        return SettingError(
            f"{self.setting}, {self.place}: {what}; expected {form}", setting=self.setting
        )


def entries_of(
    setting: str, text: str, file_setting: str, file: str, *, is_secret: bool
) -> Iterator[Entry]:
    """Those of the setting, then those of the file; an empty path is no file.

    ``is_secret``: whoever reads the file could use what is in it.
    """
    for number, word in enumerate(text.split(), start=1):
        yield Entry(word, setting, f"entry {number}")
    if file:
        _warn_of_others(file_setting, file, is_secret=is_secret)
        for number, line in enumerate(_lines(file_setting, file), start=1):
            for word in line.partition("#")[0].split():
                yield Entry(word, file_setting, f"line {number}")


def _lines(setting: str, file: str) -> list[str]:
    try:
        return Path(file).read_text("utf-8").splitlines()
    except OSError as error:
        said = f"{setting}: cannot read {file} ({error.strerror})"
    except UnicodeError:
        said = f"{setting}: {file} is not UTF-8"
    raise SettingError(said, setting=setting)


def _warn_of_others(setting: str, file: str, *, is_secret: bool) -> None:
    """Say in the log that more than its owner can change the file, or everybody read it."""
    try:
        mode = Path(file).stat().st_mode
    except OSError:
        return  # reading it says why
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        log.warning("%s: %s can be changed by others than its owner: chmod go-w", setting, file)
    elif is_secret and mode & stat.S_IROTH:
        log.warning("%s: %s can be read by everybody on this machine: chmod o-r", setting, file)
