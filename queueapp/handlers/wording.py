"""What pydantic finds, in the words of the rest: "must be …", in small letters, never the value."""

from __future__ import annotations

import re

from pydantic_core import ErrorDetails

_PLAINER = {
    "extra_forbidden": "unknown field",
    "missing": "required",
    "string_type": "must be text",
    "string_unicode": "contains a lone surrogate",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dataclass_type": "must be an object",
    "none_required": "must be null",
}
# "Input should be", "String should have", "List should have … after validation, not 101".
_SHOULD = re.compile(r"^[A-Z]\w+ should ")
_ALSO = re.compile(r" after validation, not \w+$")


def plain(found: ErrorDetails) -> str:
    """Say one finding plainly."""
    known = _PLAINER.get(found["type"])
    if known:
        return known
    if found["type"] in ("value_error", "assertion_error"):  # the words of a handler's own check
        return found["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    # What a check of our own comes before is a "value" of "items" to pydantic, a text as well.
    if found["msg"].startswith("Value should have at least 1 item"):
        return "must not be empty"
    said = _ALSO.sub("", _SHOULD.sub("must ", found["msg"]))
    return said[:1].lower() + said[1:]
