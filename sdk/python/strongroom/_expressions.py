"""Builds expressions such as {{ id | json: '$.number' | last4 }}, so that callers write no braces and escape nothing."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Mapping, Tuple, Union

FilterArgument = Union[str, int, float, bool, None]
Key = Union[str, int]

NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _has_hidden(text: str) -> bool:
    """Line ends, and characters that do not show. The server refuses some more of these."""
    return any(unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs") for character in text)


def _write_text(text: str) -> str:
    if _has_hidden(text):
        raise TypeError("An argument of a filter must not have line ends or hidden characters.")
    if "'" not in text:
        return f"'{text}'"
    if '"' not in text:
        return f'"{text}"'
    raise TypeError("An argument of a filter cannot have both kinds of quotation marks.")


def _write_argument(argument: FilterArgument) -> str:
    if argument is None:
        return "nil"
    if isinstance(argument, bool):
        return "true" if argument else "false"
    if isinstance(argument, str):
        return _write_text(argument)
    if isinstance(argument, (int, float)) and NUMBER.fullmatch(str(argument)):
        return str(argument)
    raise TypeError("An argument of a filter must be a string, a boolean, None, or a number of at most 15 digits.")


def _write_step(key: Key) -> str:
    """A step of a JSONPath (RFC 9535). All but plain names is written in escapes, which no quotation mark can end."""
    if isinstance(key, int) and not isinstance(key, bool):
        return f"[{key}]"
    if not isinstance(key, str):
        raise TypeError("A key must be a string, or the whole number of an element.")
    if re.match(r"\$[.\[]", key):
        raise TypeError("path() takes keys, such as path('number'). A JSONPath goes to filter('json', ...).")
    if NAME.fullmatch(key):
        return f".{key}"
    units = key.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    plain = re.compile(r"[A-Za-z0-9_ .@/:-]")
    return "['" + "".join(chr(code) if plain.match(chr(code)) else f"\\u{code:04x}" for code in codes) + "']"


class Expression:
    """An expression. str() gives its text. Each method makes a new one."""

    def __init__(self, head: str, filters: Tuple[str, ...] = ()) -> None:
        self._head = head
        self._filters = filters

    def path(self, *keys: Key) -> Expression:
        """The part of a JSON value at these keys: path("number"), path("lines", 0, "sku"). A key is never split at dots."""
        return self.filter("json", "$" + "".join(map(_write_step, keys)))

    def filter(self, name: str, *arguments: FilterArgument) -> Expression:
        """Applies a filter of the vault: filter("reveal_last", 4)."""
        if not NAME.fullmatch(name):
            raise TypeError("The name of a filter has letters, digits and _ only.")
        call = f"{name}: {', '.join(map(_write_argument, arguments))}" if arguments else name
        return Expression(self._head, (*self._filters, call))

    def default(self, value: FilterArgument) -> Expression:
        """What stands for a part that the value has not, and for null."""
        return self.filter("default", value)

    def __str__(self) -> str:
        return "{{ " + " | ".join((self._head, *self._filters)) + " }}"


class Text:
    """A text with expressions, as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def _read_id(token: Union[str, Mapping[str, Any]]) -> str:
    token_id = token.get("id") if isinstance(token, Mapping) else token
    if not isinstance(token_id, str) or token_id == "" or token_id != token_id.strip():
        raise TypeError("An expression needs a token, or its id.")
    if _has_hidden(token_id) or re.search(r"[\[\]|{}]", token_id):
        raise TypeError("An id in an expression has no braces, brackets, bars and hidden characters.")
    return token_id


def ref(token: Union[str, Mapping[str, Any]]) -> Expression:
    """The value of a token: ref(token).path("number"). `token` is its id, or a record that has it."""
    token_id = _read_id(token)
    if token_id.startswith("token:"):
        raise TypeError("The id of a token does not begin with token:. Use record(token).")
    return Expression(token_id)


def record(token: Union[str, Mapping[str, Any]]) -> Expression:
    """The whole record of a token: record(token).path("metadata", "order")."""
    return Expression(f"token: {_read_id(token)}")


def data(*keys: Key) -> Expression:
    """The data of a token that is created, for its mask: data("number").filter("reveal_last", 4)."""

    def write(key: Key) -> str:
        if isinstance(key, int):
            return f"[{key}]"
        return f".{key}" if re.fullmatch(r"\w[\w-]*", key) else f"[{_write_text(key)}]"

    return Expression("data" + "".join(map(write, keys)))


def expression(text: str) -> Text:
    """A text with expressions, where strings with braces are refused. Never pass it a text that others wrote."""
    return Text(text)
