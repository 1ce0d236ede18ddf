"""What an address asks of a list that the list does not know: a sentence, and nothing matches."""

from __future__ import annotations

from collections.abc import Sequence

from werkzeug.datastructures import MultiDict

from queueapp.console.criteria import given_twice, no_filter

# How a page was reached, and how often a browser without scripts reads it anew.
_OF_ANY_PAGE = ("refresh", "done")


def problems_of(
    args: MultiDict[str, str], fields: Sequence[str] = (), *, places: Sequence[str] = ()
) -> list[str]:
    """Parameters that are no filter of a list and no place in it, and fields given twice."""
    known = (*fields, *places, *_OF_ANY_PAGE)
    found = [no_filter(name) for name in args if name not in known]
    return [*found, *given_twice(args, fields)]
