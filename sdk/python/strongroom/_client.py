"""The two clients. Each does what the transport says, with an httpx client of its kind."""

from __future__ import annotations

import re
import uuid
from http.cookiejar import Cookie, DefaultCookiePolicy
from typing import (
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Dict,
    Generic,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)
from urllib.parse import quote, urlencode, urlsplit

import httpx

from ._errors import StrongroomError
from ._generated import OPERATIONS, AsyncResources, Resources
from ._json import write_form, write_json
from ._transport import NETWORK_ERRORS, AnswerInfo, Clock, Options, Request, Sleep, Steps, Transport

PROXY_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class _KeepNoCookies(DefaultCookiePolicy):
    """All destinations have the vault's host: a cookie of one would be sent to the others, and to the vault."""

    def set_ok(self, cookie: Cookie, request: Any) -> bool:
        return False


def _read_options(
    api_key: str,
    base_url: str,
    timeout: float,
    retries: int,
    max_wait: float,
    on_answer: Optional[Callable[[AnswerInfo], None]],
    clock: Optional[Clock],
) -> Options:
    """Raises TypeError. Its text never has the key."""
    if not isinstance(api_key, str) or not re.fullmatch(r"[!-~]+", api_key):
        raise TypeError("Strongroom: api_key must be an API key, without blanks and line ends.")
    url = urlsplit(base_url)
    if url.scheme not in ("http", "https") or not url.netloc or "@" in url.netloc or url.query or url.fragment:
        raise TypeError("Strongroom: base_url must be an http or https URL, such as https://vault.example.com.")
    for name, value in (("timeout", timeout), ("retries", retries), ("max_wait", max_wait)):
        if not isinstance(value, (int, float)) or not value >= 0:
            raise TypeError(f"Strongroom: {name} must be a number from 0.")
    return Options(api_key, base_url.rstrip("/"), timeout, retries, max_wait, clock or Clock(), on_answer)


def _write_id(operation: str, name: str, value: Any) -> str:
    text = str(value) if isinstance(value, int) else value
    # Nothing, or dots, would lead to another path.
    if not isinstance(text, str):
        raise TypeError(f"{operation}: {name} must be an id: a text, not {type(value).__name__}.")
    if text in ("", ".", ".."):
        raise TypeError(f"{operation}: {name} must be an id.")
    return quote(text, safe="")


def _write_query(operation: str, query: Mapping[str, Any]) -> str:
    pairs: List[Tuple[str, str]] = []
    for name, value in query.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, bool):
                pairs.append((name, str(item).lower()))
            elif isinstance(item, (str, int, float)):
                pairs.append((name, str(item)))
            elif item is not None:
                raise TypeError(f"{operation}: the parameter {name} must be a text, a number or a list of these.")
    return f"?{urlencode(pairs)}" if pairs else ""


def _check_header(name: str, value: Any) -> str:
    """What httpx would refuse with the value in its message."""
    text = str(value)
    if not re.fullmatch(r"(?:[!-~](?:[\t -~]*[!-~])?)?", text):
        raise TypeError(f"{name} must have printable ASCII characters only.")
    return text


def _check_option(name: str, value: Any) -> str:
    """An option that is sent as a header. An empty one would be sent as none, or refused by the vault."""
    text = _check_header(name, value)
    if text == "":
        raise TypeError(f"{name} must not be empty.")
    return text


def _check_header_name(name: Any) -> str:
    """A token of RFC 9110 section 5.6.2."""
    if not isinstance(name, str) or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise TypeError("A header has a name that HTTP does not allow.")
    return name.lower()


def _write_request(name: str, ids: Sequence[Any], given: Any, options: Mapping[str, Any]) -> Request:
    operation = OPERATIONS[name]
    label = f"{operation['method']} {operation['path']}"
    left = list(ids)
    path = re.sub(r"\{(\w+)\}", lambda found: _write_id(label, found[1], left.pop(0)), operation["path"])
    is_body = operation.get("input") == "body"
    if operation.get("input") == "query" and given:
        path += _write_query(label, given)
    headers = {"accept": "application/json"}
    if is_body:
        headers["content-type"] = "application/json"
    if operation.get("takes_key"):
        given_key = options.get("idempotency_key")
        headers["svc-idempotency-key"] = str(uuid.uuid4()) if given_key is None else _check_option("idempotency_key", given_key)
    if options.get("trace_id") is not None:
        headers["svc-trace-id"] = _check_option("trace_id", options["trace_id"])
    if options.get("partial"):
        headers["svc-partial"] = "true"
    reads = bool(operation.get("reads_expressions"))
    content = write_json(label, given, reads) if is_body and given is not None else None
    repeatable = bool(operation.get("is_repeatable"))
    return Request(label, operation["method"], path, headers, content, repeatable, options.get("timeout"))


class Target(NamedTuple):
    """Where a proxied request goes: an origin, and a path with its query."""

    origin: str
    path: str


def _read_target(url: str, proxy_key: Optional[str]) -> Target:
    """Takes dots out of the path and clamps them to the origin: no path leads out of /proxy, to the vault itself."""
    parts = urlsplit(url)
    if proxy_key is not None and (not url.startswith("/") or parts.netloc):
        raise TypeError("With a proxy_key the URL is a path, such as /charges: the proxy has the rest.")
    if proxy_key is None and (parts.scheme != "https" or not parts.hostname or "@" in parts.netloc):
        raise TypeError("The URL must be an https URL without credentials, or a path with a proxy_key.")
    kept: List[str] = []
    segments = parts.path.replace("\\", "/").split("/")[1:] or [""]
    for at, segment in enumerate(segments):
        plain = re.sub("%2e", ".", segment, flags=re.IGNORECASE)
        if plain == ".." and kept:
            kept.pop()
        if plain not in (".", ".."):
            kept.append(segment)
        elif at == len(segments) - 1:
            kept.append("")
    path = "/" + quote("/".join(kept), safe="/%:@!$&'()*+,;=~")
    query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~?')}" if parts.query else ""
    if not parts.netloc.isascii() or not re.fullmatch(r"[^\s\\<>\"{}|^`]*", parts.netloc):
        raise TypeError("The URL has a host that is no name.")
    return Target(f"{parts.scheme}://{parts.netloc}", path + query)


def _write_body(operation: str, given: Mapping[str, Any], headers: Dict[str, str]) -> Any:
    """The body of a proxied request. Says its type in the headers, unless the caller does."""
    if sum(given[name] is not None for name in ("json", "data", "content")) > 1:
        raise TypeError("A request has one of json, data and content.")
    if given["json"] is not None:
        headers.setdefault("content-type", "application/json")
        return write_json(operation, given["json"], True)
    if given["data"] is not None:
        if not isinstance(given["data"], Mapping):
            raise TypeError("data has the fields of a form by their names. A body of bytes or text is content.")
        headers.setdefault("content-type", "application/x-www-form-urlencoded")
        return write_form(operation, given["data"])
    return given["content"]


def _write_destination(verb: str, url: str) -> httpx.Request:
    """What a response of the destination says it is of. It has no headers: the API key is one of those that were sent."""
    try:
        return httpx.Request(verb, url)
    except httpx.InvalidURL:
        raise TypeError("The URL has a part that is not valid.") from None


def _write_proxied(method: str, url: str, given: Mapping[str, Any]) -> Request:
    verb = method.upper()
    if verb not in PROXY_METHODS:
        raise TypeError(f"The proxy sends {', '.join(PROXY_METHODS)} only.")
    key = given["idempotency_key"]
    if key is not None and verb == "GET":
        raise TypeError("A GET has no idempotency_key: it may be repeated as it is.")
    operation = f"{verb} /proxy"
    proxy_key = given["proxy_key"]
    target = _read_target(url, proxy_key)
    headers = {
        _check_header_name(name): _check_header(f"The header {name}", value)
        for name, value in (given["headers"] or {}).items()
    }
    content = _write_body(operation, given, headers)
    if key is not None:
        if not isinstance(content, (bytes, str, type(None))):
            raise TypeError("With an idempotency_key, content is bytes or str: each attempt sends it anew.")
        headers["svc-idempotency-key"] = _check_option("idempotency_key", key)
    if given["trace_id"] is not None:
        headers["svc-trace-id"] = _check_option("trace_id", given["trace_id"])
    if proxy_key is None:
        headers["svc-proxy-url"] = target.origin
    else:
        headers["svc-proxy-key"] = _check_option("proxy_key", proxy_key)
    destination = _write_destination(verb, target.path if proxy_key else target.origin + target.path)
    path = f"/proxy{target.path}"
    return Request(operation, verb, path, headers, content, key is not None, given["timeout"], destination)


def _next_input(
    name: str, given: Mapping[str, Any], page: Mapping[str, Any], before: Optional[str]
) -> Optional[Dict[str, Any]]:
    """The input of the next page; None after the last one. Raises StrongroomError where the server repeats a cursor."""
    pagination = page["pagination"]
    following = pagination.get("next")
    number = pagination.get("page_number", 1)
    if following is None:
        return {**given, "page": number + 1} if number < pagination.get("total_pages", 1) else None
    if following == before:
        operation = OPERATIONS[name]
        label = f"{operation['method']} {operation['path']}"
        raise StrongroomError(label, "unexpected_answer", detail="the server repeats a cursor")
    return {**{key: value for key, value in given.items() if key != "page"}, "start": following}


T = TypeVar("T")
P = TypeVar("P")


class Listing(Generic[T, P]):
    """All records of a list, page after page: `for token in vault.tokens.list()`. `page()` is the first page, with totals."""

    def __init__(self, name: str, given: Any, fetch: Callable[[Any], Any]) -> None:
        self._name, self._given, self._fetch = name, given or {}, fetch

    def page(self) -> P:
        page: P = self._fetch(self._given)
        return page

    def __iter__(self) -> Iterator[T]:
        given, before = self._given, None
        while given is not None:
            page = self._fetch(given)
            yield from page["data"]
            given, before = _next_input(self._name, given, page, before), page["pagination"].get("next")


class AsyncListing(Generic[T, P]):
    """All records of a list, page after page: `async for token in vault.tokens.list()`. `await page()` is the first page."""

    def __init__(self, name: str, given: Any, fetch: Callable[[Any], Awaitable[Any]]) -> None:
        self._name, self._given, self._fetch = name, given or {}, fetch

    async def page(self) -> P:
        page: P = await self._fetch(self._given)
        return page

    async def __aiter__(self) -> AsyncIterator[T]:
        given, before = self._given, None
        while given is not None:
            page = await self._fetch(given)
            for item in page["data"]:
                yield item
            given, before = _next_input(self._name, given, page, before), page["pagination"].get("next")


class Proxy:
    def __init__(self, client: Strongroom) -> None:
        self._client = client

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        data: Optional[Mapping[str, Any]] = None,
        content: Any = None,
        headers: Optional[Mapping[str, Any]] = None,
        proxy_key: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        trace_id: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> httpx.Response:
        """Sends a request to another API, with the values of tokens in the place of expressions.

        The body is `json`, a form in `data`, or `content` as it is. With `proxy_key`, the key of a stored proxy, the URL is a path.
        With `idempotency_key` the vault sends it once, and the client repeats it where an answer is lost. Returns the response of the
        destination, whatever its status. Raises StrongroomError where it did not answer.
        """
        given = {
            **{"json": json, "data": data, "content": content, "headers": headers, "proxy_key": proxy_key},
            **{"idempotency_key": idempotency_key, "trace_id": trace_id, "timeout": timeout},
        }
        response: httpx.Response = self._client._run(self._client._transport.send(_write_proxied(method, url, given)))
        return response


class AsyncProxy:
    def __init__(self, client: AsyncStrongroom) -> None:
        self._client = client

    async def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        data: Optional[Mapping[str, Any]] = None,
        content: Any = None,
        headers: Optional[Mapping[str, Any]] = None,
        proxy_key: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        trace_id: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> httpx.Response:
        """As Proxy.request."""
        given = {
            **{"json": json, "data": data, "content": content, "headers": headers, "proxy_key": proxy_key},
            **{"idempotency_key": idempotency_key, "trace_id": trace_id, "timeout": timeout},
        }
        response: httpx.Response = await self._client._run(self._client._transport.send(_write_proxied(method, url, given)))
        return response


def _write_call(transport: Transport, request: Request) -> Dict[str, Any]:
    """The arguments of httpx for a request."""
    options = transport.options
    return {
        "method": request.method,
        "url": options.base_url + request.path,
        "headers": transport.headers(request),
        "content": request.content,
        "timeout": options.timeout if request.timeout is None else request.timeout,
        # To another address the key and the values would go along.
        "follow_redirects": False,
    }


class Strongroom(Resources):
    """The client for programs that block. Times are in seconds. Close it, or use it in a with statement."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str,
        timeout: float = 30.0,
        retries: int = 3,
        max_wait: float = 120.0,
        http_client: Optional[httpx.Client] = None,
        on_answer: Optional[Callable[[AnswerInfo], None]] = None,
        clock: Optional[Clock] = None,
    ) -> None:
        self._transport = Transport(_read_options(api_key, base_url, timeout, retries, max_wait, on_answer, clock))
        self._http = http_client or httpx.Client()
        self._http.cookies.jar.set_policy(_KeepNoCookies())
        self.proxy = Proxy(self)
        super().__init__(self)

    def _perform(self, request: Request) -> Any:
        try:
            return self._http.request(**_write_call(self._transport, request))
        except NETWORK_ERRORS as error:
            return error

    def _run(self, steps: Steps) -> Any:
        outcome: Any = None
        while True:
            try:
                action = steps.send(outcome)
            except StopIteration as stop:
                return stop.value
            outcome = None
            if isinstance(action, Sleep):
                self._transport.options.clock.sleep(action.seconds)
            else:
                outcome = self._perform(action)

    def _call(self, name: str, ids: Sequence[Any], given: Any, options: Mapping[str, Any]) -> Any:
        return self._run(self._transport.send(_write_request(name, ids, given, options)))

    def _list(self, name: str, ids: Sequence[Any], given: Any, options: Mapping[str, Any]) -> Listing[Any, Any]:
        return Listing(name, given, lambda page: self._call(name, ids, page, options))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Strongroom:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class AsyncStrongroom(AsyncResources):
    """The client for asyncio. Times are in seconds. Close it, or use it in an async with statement."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str,
        timeout: float = 30.0,
        retries: int = 3,
        max_wait: float = 120.0,
        http_client: Optional[httpx.AsyncClient] = None,
        on_answer: Optional[Callable[[AnswerInfo], None]] = None,
        clock: Optional[Clock] = None,
    ) -> None:
        self._transport = Transport(_read_options(api_key, base_url, timeout, retries, max_wait, on_answer, clock))
        self._http = http_client or httpx.AsyncClient()
        self._http.cookies.jar.set_policy(_KeepNoCookies())
        self.proxy = AsyncProxy(self)
        super().__init__(self)

    async def _perform(self, request: Request) -> Any:
        try:
            return await self._http.request(**_write_call(self._transport, request))
        except NETWORK_ERRORS as error:
            return error

    async def _run(self, steps: Steps) -> Any:
        outcome: Any = None
        while True:
            try:
                action = steps.send(outcome)
            except StopIteration as stop:
                return stop.value
            outcome = None
            if isinstance(action, Sleep):
                await self._transport.options.clock.sleep_async(action.seconds)
            else:
                outcome = await self._perform(action)

    async def _call(self, name: str, ids: Sequence[Any], given: Any, options: Mapping[str, Any]) -> Any:
        return await self._run(self._transport.send(_write_request(name, ids, given, options)))

    def _list(self, name: str, ids: Sequence[Any], given: Any, options: Mapping[str, Any]) -> AsyncListing[Any, Any]:
        return AsyncListing(name, given, lambda page: self._call(name, ids, page, options))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncStrongroom:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()
