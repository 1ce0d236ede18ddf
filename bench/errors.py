"""What the bench reports instead of a figure."""

from __future__ import annotations


class Missing(Exception):
    """It cannot be installed or started here; the message says why, and what would help."""


class Failed(Exception):
    """It was measured and did not do what it must; the message says what."""


class NotMeasured(Exception):
    """There is nothing to measure; the message says why."""
