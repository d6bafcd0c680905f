"""Writes a body as JSON or as a form, and refuses what would be changed in silence."""

from __future__ import annotations

import json
import math
from typing import Any, List, Mapping, Tuple
from urllib.parse import urlencode

from ._errors import StrongroomError, invalid_input
from ._expressions import Expression, Text

DEPTH_MAX = 200
INTEGER_MAX = 2**53 - 1


def write_json(operation: str, body: Any, refuses_braces: bool) -> bytes:
    """Raises StrongroomError invalid_input, with the path, for what JSON has not.

    `refuses_braces`: a string with {{ is an error unless an expression made it: a text that others wrote must not read tokens.
    """

    def refuse(path: str, text: str, code: str) -> StrongroomError:
        return invalid_input(operation, path or "body", text, code)

    def convert(value: Any, path: str, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise refuse("", f"must have at most {DEPTH_MAX} levels", "too_deep")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (Expression, Text)):
            return str(value)
        if isinstance(value, str):
            if refuses_braces and "{{" in value:
                text = "has {{: make expressions with ref(token), or mark the text with expression(text)"
                raise refuse(path, text, "bad_expression")
            return value
        if isinstance(value, int):
            if abs(value) > INTEGER_MAX:
                raise refuse(path, "would be changed by a double: send it as a string", "inexact_number")
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise refuse(path, "must be a finite number", "wrong_type")
            return value
        if isinstance(value, Mapping):
            if not all(isinstance(key, str) for key in value):
                raise refuse(path, "must have keys that are strings", "wrong_type")
            return {key: convert(item, f"{path}.{key}" if path else key, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [convert(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)]
        raise refuse(path, f"must be JSON: {type(value).__name__} is not", "wrong_type")

    converted = convert(body, "", 0)
    try:
        return json.dumps(converted, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair: the server refuses it at its place.
        return json.dumps(converted, separators=(",", ":")).encode()


def write_form(operation: str, fields: Mapping[str, Any]) -> bytes:
    """Raises StrongroomError invalid_input for what write_json refuses, and for what is no text, number, boolean or list of these."""
    pairs: List[Tuple[str, str]] = []
    for name, value in json.loads(write_json(operation, fields, True)).items():
        for item in value if isinstance(value, list) else [value]:
            if item is None or isinstance(item, (dict, list)):
                raise invalid_input(operation, name, "must be a text, a number, a boolean or a list of these", "wrong_type")
            pairs.append((name, str(item).lower() if isinstance(item, bool) else str(item)))
    return urlencode(pairs).encode()
