"""The client of a Strongroom vault: Strongroom for programs that block, AsyncStrongroom for asyncio."""

from ._client import AsyncStrongroom, Strongroom
from ._errors import StrongroomError
from ._expressions import Expression, data, expression, record, ref
from ._transport import AnswerInfo, Clock

__all__ = [
    "AnswerInfo",
    "AsyncStrongroom",
    "Clock",
    "Expression",
    "Strongroom",
    "StrongroomError",
    "data",
    "expression",
    "record",
    "ref",
]
