"""The error that a request to the vault fails with: a problem of the server, or no answer at all."""

from __future__ import annotations

import copyreg
from typing import Any, Dict, List, Optional, Tuple

Faults = Dict[str, List[str]]

# A message shows as many faults. `errors` has all of them.
FAULTS_SHOWN = 3


class StrongroomError(Exception):
    """Raised for every failure. Neither its text nor its attributes hold a value that was sent.

    Without `status` the server did not answer: `code` is then connection_failed, certificate_refused, timeout, or
    invalid_input, where nothing was sent. `retry_after` is in seconds. `operation` has no ids.
    """

    def __init__(
        self,
        operation: str,
        code: str,
        *,
        detail: Optional[str] = None,
        status: Optional[int] = None,
        errors: Optional[Faults] = None,
        codes: Optional[Faults] = None,
        trace_id: Optional[str] = None,
        retry_after: Optional[float] = None,
        attempts: int = 0,
    ) -> None:
        self.operation = operation
        self.code = code
        self.status = status
        self.errors = errors or {}
        self.codes = codes or {}
        self.trace_id = trace_id
        self.retry_after = retry_after
        self.attempts = attempts
        # Sentences of the server that have a subject of their own stand apart from the path.
        faults = [f"{path}{':' if text[:1].isupper() else ''} {text}" for path, texts in self.errors.items() for text in texts]
        more = f" (and {len(faults) - FAULTS_SHOWN} more)" if len(faults) > FAULTS_SHOWN else ""
        text = "; ".join(([detail] if detail else []) + faults[:FAULTS_SHOWN]) + more
        head = f"{operation}: {'' if status is None else f'{status} '}{code}"
        trace = f" (trace {trace_id})" if trace_id else ""
        super().__init__(f"{head}{f': {text}' if text else ''}{trace}")

    def __reduce__(self) -> Tuple[Any, ...]:
        """Pools of processes and queues of jobs pickle an error; Exception would make it of its text alone."""
        return (copyreg.__newobj__, (type(self), *self.args), self.__dict__)  # type: ignore[attr-defined]


def invalid_input(operation: str, path: str, text: str, code: str = "invalid") -> StrongroomError:
    """Input that cannot be sent. The path is written as the server writes it: card.data.number, [0].type, body."""
    return StrongroomError(operation, "invalid_input", errors={path: [text]}, codes={path: [code]})
