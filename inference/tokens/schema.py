"""A call's arguments against the tools the prompt offered: unknown tool, unknown or missing argument, wrong type.

Only what a tool's JSON Schema says plainly is checked (types, properties, required, enum, anyOf/oneOf); a schema that says it in
other ways is not held against the call. A value written as bare text fits where one reading of it does: as the text it is, or as
the JSON or Python value it spells.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from inference.tokens.payloads.arguments import describe
from inference.tokens.payloads.jsontext import JsonError, JsonValue, Number, RawText, read_whole, scan_members
from inference.tokens.payloads.literals import read_literal, skip
from inference.tokens.payloads.payload import CallError, ToolCall
from inference.tokens.payloads.wording import shown

_DEEPEST = 8
_MOST_NAMED = 10  # tools or values, in one sentence
_TYPE = "tool_argument_type"
Schemas = Mapping[str, Mapping[str, Any]]


class _Fault(NamedTuple):
    """A fault, and which of the call's arguments has it (None: one that is not there)."""

    error: CallError
    argument: str | None = None


def tool_schemas(tools: Sequence[Mapping[str, Any]] | None) -> dict[str, Mapping[str, Any]]:
    """The parameter schemas by tool name; tools with and without the `function` wrapper are read."""
    found: dict[str, Mapping[str, Any]] = {}
    for tool in tools or ():
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
            parameters = inner.get("parameters") or inner.get("input_schema") or {}
            found[inner["name"]] = parameters if isinstance(parameters, Mapping) else {}
    return found


def check_call(call: ToolCall, tools: Sequence[Mapping[str, Any]] | None) -> list[CallError]:
    """What the call gets wrong by the tools' schemas. Nothing without tools, without a name or without readable arguments."""
    return check_against(call, tool_schemas(tools))


def check_against(call: ToolCall, schemas: Schemas) -> list[CallError]:
    """As `check_call`, with the schemas from `tool_schemas`. Each fault of an argument that is there has that value's position."""
    if not schemas or call.name is None or call.builtin:
        return []
    if call.name not in schemas:
        offered = ", ".join(shown(name) for name in islice(schemas, _MOST_NAMED))
        return [CallError("tool_unknown", f"The prompt offered no tool “{shown(call.name)}” (it offered {offered}).")]
    if call.value is None:
        return []
    faults = list(_arguments(call.value, schemas[call.name]))
    if not faults:
        return []
    places = call.places or _places(call)
    return [
        fault.error if fault.argument is None else replace(fault.error, position=places.get(fault.argument))
        for fault in faults
    ]


def _places(call: ToolCall) -> dict[str, int]:
    if call.arguments is None or call.span is None:
        return {}
    return {member.key: call.span[0] + member.start for member in scan_members(call.arguments, 0)}


def _arguments(value: Mapping[str, JsonValue], schema: Mapping[str, Any]) -> Iterator[_Fault]:
    for key in _unknown(value, schema):
        yield _Fault(CallError("tool_argument_unknown", f"The argument {shown(key)} is not in the tool's schema."), key)
    for key in _missing(value, schema):
        yield _Fault(CallError("tool_argument_missing", f"The required argument {shown(key)} is missing."))
    for key, item, inner in _known(value, schema):
        for error in _value(item, inner, shown(key), 1):
            yield _Fault(error, key)


def _members(value: Mapping[str, JsonValue], schema: Mapping[str, Any], at: str, depth: int) -> Iterator[CallError]:
    for key in _unknown(value, schema):
        yield CallError("tool_argument_unknown", f"The argument {at}.{shown(key)} is not in the tool's schema.")
    for key in _missing(value, schema):
        yield CallError("tool_argument_missing", f"The required argument {at}.{shown(key)} is missing.")
    for key, item, inner in _known(value, schema):
        yield from _value(item, inner, f"{at}.{shown(key)}", depth + 1)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _unknown(value: Mapping[str, JsonValue], schema: Mapping[str, Any]) -> list[str]:
    extra = schema.get("additionalProperties")
    if extra is True or isinstance(extra, Mapping) or "properties" not in schema or schema.get("patternProperties"):
        return []
    properties = _properties(schema)
    return [key for key in value if key not in properties]


def _missing(value: Mapping[str, JsonValue], schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    return [key for key in wanted if isinstance(key, str) and key not in value]


def _known(
    value: Mapping[str, JsonValue], schema: Mapping[str, Any]
) -> Iterator[tuple[str, JsonValue, Mapping[str, Any]]]:
    properties = _properties(schema)
    for key, item in value.items():
        inner = properties.get(key)
        if isinstance(inner, Mapping):
            yield key, item, inner


def _value(value: JsonValue, schema: Mapping[str, Any], at: str, depth: int) -> Iterator[CallError]:
    if depth > _DEEPEST or (value is None and schema.get("nullable") is True):
        return
    if isinstance(value, RawText):
        yield from _raw(value, schema, at, depth)
        return
    choices = [item for key in ("anyOf", "oneOf") for item in _listed(schema, key) if isinstance(item, Mapping)]
    if choices:
        if all(next(_value(value, item, at, depth + 1), None) for item in choices):
            yield CallError(_TYPE, f"The argument {at} is {describe(value)}; no alternative of its schema fits.")
        return
    names = _type_names(schema)
    if names and not any(_is(value, name) for name in names):
        yield CallError(_TYPE, f"The argument {at} is {describe(value)}; {_wanted({'type': names})}.")
        return
    allowed = _listed(schema, "enum")
    if allowed and not isinstance(value, dict | list) and not any(_same(value, item) for item in allowed):
        told = f"“{shown(value)}”" if isinstance(value, str) else describe(value)
        yield CallError(_TYPE, f"The argument {at} is {told}; {_wanted(schema)}.")
    elif isinstance(value, dict):
        yield from _members(value, schema, at, depth + 1)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for index, item in enumerate(value):
            yield from _value(item, schema["items"], f"{at}[{index}]", depth + 1)


def _raw(value: RawText, schema: Mapping[str, Any], at: str, depth: int) -> Iterator[CallError]:
    """What is wrong with bare text in every reading of it; told of the reading that comes nearest."""
    inside: list[CallError] = []
    for reading in _readings(value):
        found = list(_value(reading, schema, at, depth))
        if not found:
            return
        if isinstance(reading, dict | list) and any(_is(reading, name) for name in _type_names(schema)):
            inside = found
    if inside:
        yield from inside
    else:
        yield CallError(_TYPE, f"The argument {at} is {describe(value)}; {_wanted(schema)}.")


def _wanted(schema: Mapping[str, Any]) -> str:
    allowed, names = _listed(schema, "enum"), _type_names(schema)
    if allowed:
        return f"its schema allows {', '.join(shown(str(item)) for item in allowed[:_MOST_NAMED])}"
    return f"its schema wants {' or '.join(names)}" if names else "no alternative of its schema fits"


def _readings(value: RawText) -> Iterator[JsonValue]:
    """What bare text can stand for: itself, itself without the whitespace around it, a JSON value, a Python literal."""
    text = str(value)
    yield text
    stripped = text.strip()
    if stripped != text:
        yield stripped
    try:
        yield read_whole(stripped).value
    except JsonError:
        try:
            found = read_literal(stripped, 0)
        except JsonError:
            return
        if skip(stripped, found.end) == len(stripped) and type(found.value) is not str:
            yield found.value


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _type_names(schema: Mapping[str, Any]) -> list[str]:
    wanted = schema.get("type")
    return [str(name) for name in wanted] if isinstance(wanted, list) else [wanted] if isinstance(wanted, str) else []


def _same(value: JsonValue, allowed: Any) -> bool:
    """Whether a value is one that an enum lists; a number is, in whatever way it is written."""
    if isinstance(value, Number):
        if isinstance(allowed, bool) or not isinstance(allowed, int | float):
            return False
        return str(value) == str(allowed) or float(value) == allowed
    if isinstance(value, bool) or value is None:
        return value is allowed
    return bool(value == allowed)


_TYPES: dict[str, Callable[[JsonValue], bool]] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: isinstance(value, Number) and value.is_whole,
    "number": lambda value: isinstance(value, Number),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _is(value: JsonValue, name: str) -> bool:
    check = _TYPES.get(name)
    return check is None or check(value)  # a type this schema language does not know is not held against the call
