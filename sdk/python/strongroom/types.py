"""The types of requests and answers: `from strongroom.types import CardData, Token`."""

from ._generated import *
