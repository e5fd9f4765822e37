"""A checker for the part of JSON Schema that stockade's own schemas use. It refuses every other keyword."""

from collections.abc import Iterator

KINDS = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "array": list,
    "object": dict,
}  # fmt: skip
KNOWN = {
    "$schema", "title", "type", "enum", "const", "anyOf", "items", "properties", "required", "additionalProperties",
    "propertyNames", "contentEncoding",
}  # fmt: skip


def faults(value, schema, where="it") -> Iterator[str]:
    """Yield each place where ``value`` does not match ``schema``."""
    assert not schema.keys() - KNOWN, schema.keys() - KNOWN
    kind = schema.get("type")
    if kind and not (isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))):
        yield f"{where}: {value!r} is not a {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not in {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} is not {schema['const']}"
    if "anyOf" in schema and all(any(True for _ in faults(value, each)) for each in schema["anyOf"]):
        yield f"{where}: {value!r} matches none of {schema['anyOf']}"
    for at, each in enumerate(value) if kind == "array" and "items" in schema else ():
        yield from faults(each, schema["items"], f"{where}[{at}]")
    if kind == "object":
        yield from _faults_of_object(value, schema, where)


def _faults_of_object(value, schema, where) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    yield from (f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, each in value.items():
        if "propertyNames" in schema:
            yield from faults(name, schema["propertyNames"], f"{where}: name")
        if name not in known and others is False:
            yield f"{where}: {name} is unknown"
        else:
            yield from faults(each, known.get(name, others or {}), f"{where}.{name}")
