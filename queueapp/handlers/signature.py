"""From a handler's signature to the check of its payload.

A parameter annotated ``JobContext`` is filled by the worker. The others are the payload's fields;
or the only other one is a pydantic model, which then is the payload.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, Required, cast

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from typing_extensions import TypedDict

from queueapp.errors import InvalidJob
from queueapp.handlers import problems
from queueapp.handlers.context import JobContext

_KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

_as_json = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True)
class PayloadType:
    """What a handler takes: which parameter is the context, and how the payload is checked.

    ``model_parameter``: the payload is one pydantic model, given under this name. ``extra``:
    'forbid' where a model leaves open what becomes of unknown fields.
    """

    adapter: TypeAdapter[Any]
    defaults: Mapping[str, Any]
    context_parameter: str | None = None
    model_parameter: str | None = None
    extra: typing.Literal["forbid"] | None = None

    def check(self, payload: Any) -> dict[str, Any]:
        """Turn ``payload`` into keyword arguments. Raises InvalidJob that names every bad field."""
        return self.check_json(_as_json(payload).encode("utf-8", "surrogatepass"))

    def check_json(self, text: str | bytes) -> dict[str, Any]:
        """Do the same with a payload that is JSON text."""
        try:
            # As JSON and strict: "5" is no number, but a string can be a date, a list a tuple.
            # The adapter's own method would cost as much again as the check.
            checked = self.adapter.validator.validate_json(text, strict=True, extra=self.extra)
        except ValidationError as error:
            errors = problems.of_validation(error, json.loads(text))
            # Not chained: pydantic's own text repeats the values.
            raise InvalidJob("the payload does not fit its handler", errors=errors) from None
        if self.model_parameter is not None:
            return {self.model_parameter: checked}
        return cast("dict[str, Any]", checked)

    def schema(self) -> dict[str, Any]:
        """Describe the payload as JSON Schema."""
        schema = self.adapter.json_schema()
        if self.extra == "forbid":
            schema.setdefault("additionalProperties", False)
        for name, value in self.defaults.items():
            schema["properties"][name].setdefault("default", value)
        return schema


def payload_type(function: Callable[..., Any]) -> PayloadType:
    """Read the signature of ``function``. Raises TypeError for one that no payload could fill."""
    parameters = inspect.signature(function).parameters
    hints = _hints(function)
    for parameter in parameters.values():
        _must_be_fillable(function, parameter, hints)
    contexts = [name for name in parameters if hints[name] is JobContext]
    if len(contexts) > 1:
        raise TypeError(f"{name_of(function)} takes two JobContext parameters: keep one")
    context = contexts[0] if contexts else None
    fields = {name: one for name, one in parameters.items() if name != context}
    try:
        return _of_fields(fields, hints, context)
    except (PydanticUserError, PydanticSchemaGenerationError) as error:
        text = str(error).partition("\n")[0]
        raise TypeError(f"{name_of(function)}: a payload cannot fill this type: {text}") from error


def name_of(function: Callable[..., Any]) -> str:
    """The function's full name, for messages."""
    return f"{function.__module__}.{function.__qualname__}"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{name_of(function)}: the annotation {error.name!r} is not known at run time;"
            " import it outside TYPE_CHECKING, and define it at the top of a module"
        ) from error


def _must_be_fillable(
    function: Callable[..., Any], parameter: inspect.Parameter, hints: Mapping[str, Any]
) -> None:
    place = f"{name_of(function)}: the parameter {parameter}"
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise TypeError(f"{place} is positional-only; a payload's fields are given by name")
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        raise TypeError(f"{place} cannot be filled: a payload is an object with named fields")
    if parameter.name not in hints:
        raise TypeError(f"{place} has no annotation; the payload is checked by it")


def _of_fields(
    fields: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], context: str | None
) -> PayloadType:
    if len(fields) == 1:
        (name,) = fields
        if fields[name].kind in _KEYWORDS and _is_model(hints[name]):
            return _of_model(name, hints[name], context)
    named = {name: one for name, one in fields.items() if one.kind in _KEYWORDS}
    rest = [hints[name] for name in fields if name not in named]
    adapter = TypeAdapter(_typed_dict(named, hints, rest))
    return PayloadType(adapter, _plain_defaults(named), context)


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _of_model(name: str, model: type[BaseModel], context: str | None) -> PayloadType:
    # A model that says nothing would ignore a misspelt field, and the job would run without it.
    extra: typing.Literal["forbid"] | None = None if "extra" in model.model_config else "forbid"
    return PayloadType(TypeAdapter(model), {}, context, name, extra)


def _typed_dict(
    named: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], rest: list[Any]
) -> Any:
    # Not create_model: its fields may not be called "json" or "copy", and payloads' often are.
    required = {name: Required if _is_required(one) else NotRequired for name, one in named.items()}
    annotations = {name: required[name][hints[name]] for name in named}
    make = cast("Any", TypedDict)
    made = make("Payload", annotations, **({"extra_items": rest[0]} if rest else {}))
    made.__pydantic_config__ = ConfigDict(extra="allow" if rest else "forbid", strict=True)
    return made


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty


def _plain_defaults(named: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    optional = {name: one.default for name, one in named.items() if not _is_required(one)}
    return {
        name: value
        for name, value in optional.items()
        if value is None or isinstance(value, str | int | float)
    }
