"""A call's arguments against the tools the prompt offered: unknown tool, unknown or missing argument, wrong type.

Only what a tool's JSON Schema says plainly is checked (types, properties, required, enum, anyOf/oneOf); a schema that says it in
other ways is not held against the call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from inference.tokens.payloads.arguments import describe
from inference.tokens.payloads.jsontext import JsonValue, Number
from inference.tokens.payloads.payload import CallError, ToolCall

_DEEPEST = 8


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
    schemas = tool_schemas(tools)
    if not schemas or call.name is None:
        return []
    if call.name not in schemas:
        offered = ", ".join(sorted(schemas)[:10])
        return [CallError("tool_unknown", f"The prompt offered no tool “{call.name[:80]}” (it offered {offered}).")]
    return [] if call.value is None else list(_members(call.value, schemas[call.name], "", 0))


def _members(value: Mapping[str, JsonValue], schema: Mapping[str, Any], at: str, depth: int) -> Iterator[CallError]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    extra = schema.get("additionalProperties")
    open_ended = extra is True or isinstance(extra, Mapping) or "properties" not in schema
    for key in value:
        if key not in properties and not open_ended and not schema.get("patternProperties"):
            yield CallError("tool_argument_unknown", f"The argument {at}{key} is not in the tool's schema.")
    required = schema.get("required")
    for key in required if isinstance(required, list) else ():
        if isinstance(key, str) and key not in value:
            yield CallError("tool_argument_missing", f"The required argument {at}{key} is missing.")
    for key, item in value.items():
        inner = properties.get(key)
        if isinstance(inner, Mapping):
            yield from _value(item, inner, f"{at}{key}", depth + 1)


def _value(value: JsonValue, schema: Mapping[str, Any], at: str, depth: int) -> Iterator[CallError]:
    choices = [item for key in ("anyOf", "oneOf") for item in schema.get(key) or () if isinstance(item, Mapping)]
    if depth > _DEEPEST or (value is None and schema.get("nullable") is True):
        return
    if choices:
        if all(next(_value(value, item, at, depth + 1), None) for item in choices):
            yield CallError(
                "tool_argument_type", f"The argument {at} is {describe(value)}; no alternative of its schema fits."
            )
        return
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [wanted] if isinstance(wanted, str) else []
    if names and not any(_is(value, str(name)) for name in names):
        listed = " or ".join(map(str, names))
        yield CallError("tool_argument_type", f"The argument {at} is {describe(value)}; its schema wants {listed}.")
        return
    allowed = schema.get("enum")
    if isinstance(allowed, list) and allowed and type(value) is str and value not in allowed:
        shown = ", ".join(map(str, allowed[:10]))
        yield CallError("tool_argument_type", f"The argument {at} is “{value[:80]}”; its schema allows {shown}.")
    elif isinstance(value, dict):
        yield from _members(value, schema, f"{at}.", depth + 1)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for index, item in enumerate(value):
            yield from _value(item, schema["items"], f"{at}[{index}]", depth + 1)


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
