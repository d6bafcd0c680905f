"""What is sent when: timeouts, retries with one idempotency key, and pauses. It does no input or output itself."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, Generator, Optional, Union

import httpx

from ._errors import Faults, StrongroomError

# In seconds. Each further pause is twice as long.
PAUSE = 0.25
# A pause that the server has not asked for.
PAUSE_MAX = 8.0
# Statuses after which the same request may succeed.
AGAIN = (429, 502, 503, 504)


class Clock:
    """Time, for tests of the caller: a test need not wait."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(frozen=True)
class AnswerInfo:
    """What is known of an answer, for logs and metrics of the caller. It has no values."""

    operation: str
    status: int
    trace_id: Optional[str]
    # What may be a typing error, such as a container that no token had before.
    warning: Optional[str]
    # The answer was kept by the server: an earlier request with the idempotency key did it.
    is_replayed: bool
    attempts: int


@dataclass(frozen=True)
class Options:
    api_key: str
    base_url: str
    timeout: float
    retries: int
    max_wait: float
    clock: Clock
    on_answer: Optional[Callable[[AnswerInfo], None]]


@dataclass(frozen=True)
class Request:
    operation: str
    method: str
    path: str
    headers: Dict[str, str]
    content: Any
    is_repeatable: bool
    timeout: Optional[float]
    # A destination answers it: its response is passed on, as one of this request.
    destination: Optional[httpx.Request] = None


@dataclass(frozen=True)
class Sleep:
    seconds: float


Action = Union[Sleep, Request]
# Older versions of httpx let errors of TLS and of sockets through as they are.
NETWORK_ERRORS = (httpx.HTTPError, OSError)
# Nothing of the request was sent.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, ConnectionRefusedError, socket.gaierror)
# Yields what is to be done, and is sent the response or the error of each request.
Steps = Generator[Action, Any, Any]


def read_retry_after(headers: httpx.Headers) -> Optional[float]:
    """Seconds, for seconds or a date (RFC 9110 section 10.2.3)."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}", text):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text.endswith("GMT") else None
    except (TypeError, ValueError):
        return None


def _may_be_done(outcome: Any) -> bool:
    """Whether the server may have done the request although its answer did not arrive."""
    if isinstance(outcome, httpx.Response):
        return outcome.status_code in (502, 504)
    return not isinstance(outcome, NOT_SENT)


def _read_string(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def _read_faults(value: Any) -> Optional[Faults]:
    """Another server than the vault may use the same name for something else."""
    if not isinstance(value, dict):
        return None
    are_texts = (isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in value.values())
    return value if all(are_texts) else None


def read_problem(request: Request, response: httpx.Response, attempts: int) -> StrongroomError:
    """A problem of the server, or what a load balancer sent in its place."""
    try:
        parsed = json.loads(response.content)
    except ValueError:
        # Not an answer of the vault: its text may be anything, and is not shown.
        parsed = None
    problem = parsed if isinstance(parsed, dict) else {}
    problem = problem["proxy_error"] if isinstance(problem.get("proxy_error"), dict) else problem
    is_problem = isinstance(problem.get("code"), str)
    return StrongroomError(
        request.operation,
        problem["code"] if is_problem else "unexpected_answer",
        detail=_read_string(problem.get("detail")) if is_problem else "the answer is not one of the vault",
        status=response.status_code,
        errors=_read_faults(problem.get("errors")) if is_problem else None,
        codes=_read_faults(problem.get("codes")) if is_problem else None,
        trace_id=_read_string(problem.get("trace_id")) or response.headers.get("svc-trace-id"),
        retry_after=read_retry_after(response.headers),
        attempts=attempts,
    )


def read_failure(request: Request, error: Exception, attempts: int) -> StrongroomError:
    """The texts of httpx have hosts and reasons of the system, and no values. Its error has the request, so it is no cause of this one."""
    code = "connection_failed"
    if isinstance(error, httpx.TimeoutException):
        code = "timeout"
    elif "CERTIFICATE_VERIFY_FAILED" in str(error):
        code = "certificate_refused"
    # The texts of errors of the protocol quote headers, such as keys, and what another server sent.
    is_quoting = isinstance(error, httpx.ProtocolError)
    detail = type(error).__name__ if is_quoting else str(error) or type(error).__name__
    return StrongroomError(request.operation, code, detail=detail, attempts=attempts)


def is_again(error: StrongroomError) -> bool:
    if error.status is None:
        return error.code in ("connection_failed", "timeout")
    # Code of the tenant that failed with such a status fails again, or has done something already.
    if error.code == "code_failed":
        return False
    return error.status in AGAIN or error.code == "idempotency_in_progress"


class Transport:
    def __init__(self, options: Options) -> None:
        self.options = options
        # Until then the application's rate limit lets nothing through.
        self._paused_until = 0.0

    def headers(self, request: Request) -> Dict[str, str]:
        return {**request.headers, "svc-api-key": self.options.api_key}

    def check(self, request: Request, response: httpx.Response, attempts: int) -> None:
        """Raises StrongroomError for an answer that is no success."""
        headers = response.headers
        if self.options.on_answer:
            self.options.on_answer(
                AnswerInfo(
                    operation=request.operation,
                    status=response.status_code,
                    trace_id=headers.get("svc-trace-id"),
                    warning=headers.get("svc-warning"),
                    is_replayed=headers.get("svc-idempotent-replayed") == "true",
                    attempts=attempts,
                )
            )
        if not response.is_success:
            raise read_problem(request, response, attempts)

    def _read(self, request: Request, outcome: Any, attempts: int) -> Any:
        if isinstance(outcome, NETWORK_ERRORS):
            raise read_failure(request, outcome, attempts)
        if request.destination and "svc-proxy-destination-status" in outcome.headers:
            outcome.request = request.destination
            return outcome
        found = re.search(r'"rate_limit";r=0;t=(\d{1,6})', outcome.headers.get("ratelimit", ""))
        if found:
            self._paused_until = max(self._paused_until, self.options.clock.now() + float(found[1]))
        self.check(request, outcome, attempts)
        if request.destination:
            detail = "the answer is not one of the proxy"
            raise StrongroomError(request.operation, "unexpected_answer", detail=detail, status=outcome.status_code, attempts=attempts)
        if not outcome.content:
            return None
        try:
            return json.loads(outcome.content)
        except ValueError:
            raise read_problem(request, outcome, attempts) from None

    def send(self, request: Request) -> Steps:
        """Sends a request until it is answered, within the limits of retries and of waiting.

        Returns parsed JSON, or None; the response of a destination.
        """
        options = self.options
        failures = 0
        waited = 0.0
        is_unknown = False
        attempts = 0
        while True:
            attempts += 1
            pause = self._paused_until - options.clock.now()
            if pause > 0 and waited + pause <= options.max_wait:
                waited += pause
                yield Sleep(pause)
            outcome = yield request
            try:
                return self._read(request, outcome, attempts)
            except StrongroomError as error:
                # The request whose answer was lost has deleted it.
                if is_unknown and request.method == "DELETE" and not request.destination and error.code == "not_found":
                    return None
                is_unknown = is_unknown or _may_be_done(outcome)
                # A server that says when to come again is not one that fails: time limits these retries, not their number.
                is_told = error.status == 429 and error.retry_after is not None
                failures += 0 if is_told else 1
                exponent = min(10, (attempts if is_told else failures) - 1)
                wait = max(min(PAUSE_MAX, PAUSE * 2**exponent) * random.uniform(0.5, 1), error.retry_after or 0)
                is_within = failures <= options.retries and waited + wait <= options.max_wait
                if not (request.is_repeatable and options.retries > 0 and is_within and is_again(error)):
                    raise
                waited += wait
            yield Sleep(wait)
