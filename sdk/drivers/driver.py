"""Lets a test drive the client for Python: reads commands as lines of JSON, writes what came of each. Usage: driver.py sync|async."""

import asyncio
import json
import pickle
import re
import sys
import time

import httpx
import strongroom

waits = []


class FakeClock(strongroom.Clock):
    """Pauses cost a test nothing: the clock goes on by them."""

    elapsed = 0.0

    def now(self):
        return time.monotonic() + self.elapsed

    def sleep(self, seconds):
        waits.append(seconds * 1_000)
        self.elapsed += seconds

    async def sleep_async(self, seconds):
        self.sleep(seconds)


def decode(value):
    """What JSON cannot say is written as an object with one key that begins with $."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$big" in value:
        return int(value["$big"])
    if "$nan" in value:
        return float("nan")
    if "$ref" in value:
        made = strongroom.ref(value["$ref"]["id"])
        if "path" in value["$ref"]:
            made = made.path(*value["$ref"]["path"])
        for name, *arguments in value["$ref"].get("filters", []):
            made = made.filter(name, *arguments)
        return made
    return {key: decode(item) for key, item in value.items()}


def snake_case(name):
    return re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name)


def describe(error):
    if isinstance(error, strongroom.StrongroomError):
        # An error of httpx has the request, with the API key and all values.
        assert error.__cause__ is None, "the error has a cause"
        # As a pool of processes passes it on.
        error = pickle.loads(pickle.dumps(error))
        names = ("code", "status", "errors", "codes", "trace_id", "attempts")
        told = {name: getattr(error, name) for name in names}
        return {"kind": "StrongroomError", "message": str(error), **{key: value for key, value in told.items() if value is not None}}
    kind = "aborted" if isinstance(error, asyncio.CancelledError) else type(error).__name__
    return {"kind": kind, "message": str(error)}


# Takes a tenth of a second to make.
certificates = httpx.create_ssl_context()


def misdirect(is_async, first_url):
    """The first request goes to another address, the others as they are asked."""
    left = [first_url] if first_url else []

    def direct(request):
        if left:
            request.url = httpx.URL(left.pop())

    async def direct_async(request):
        direct(request)

    return {"request": [direct_async if is_async else direct]}


def make_client(kind, http, given):
    options = {snake_case(name): value for name, value in given.items()}
    clock = {} if options.pop("real_clock", False) else {"clock": FakeClock()}
    hooks = misdirect(http is httpx.AsyncClient, options.pop("first_url", None))
    for name in {"timeout", "max_wait"} & options.keys():
        options[name] /= 1_000
    return kind(**options, **clock, http_client=http(verify=certificates, event_hooks=hooks))


def prepare(vault, command):
    """The method of a command, and its arguments."""
    arguments = decode(command["args"])
    options = {snake_case(name): value for name, value in command.get("options", {}).items()}
    if command["call"] == "proxy.fetch":
        url, init = arguments
        if "form" in init:
            init["data"] = init.pop("form")
        return vault.proxy.request, [init.pop("method"), url], {**init, **options}
    resource, method = command["call"].split(".")
    return getattr(getattr(vault, snake_case(resource)), snake_case(method)), arguments, options


def show(value):
    if hasattr(value, "status_code"):
        return {"status": value.status_code, "text": value.text}
    return value


def call(vault, command):
    method, arguments, options = prepare(vault, command)
    result = method(*arguments, **options)
    if "take" in command:
        return [item["id"] for _, item in zip(range(command["take"]), result)]
    return show(result.page() if hasattr(result, "page") else result)


async def call_async(vault, command):
    method, arguments, options = prepare(vault, command)
    result = method(*arguments, **options)
    if "take" in command:
        ids = []
        async for item in result:
            ids.append(item["id"])
            if len(ids) == command["take"]:
                break
        return ids
    task = asyncio.ensure_future(result.page() if hasattr(result, "page") else result)
    if "abortAfterMs" in command:
        asyncio.get_running_loop().call_later(command["abortAfterMs"] / 1_000, task.cancel)
    return show(await task)


def main_sync():
    vault = None
    for line in sys.stdin:
        command = json.loads(line)
        waits.clear()
        if "client" in command:
            vault = make_client(strongroom.Strongroom, httpx.Client, command["client"])
        try:
            outcome = {"value": call(vault, command)}
        except Exception as error:
            outcome = {"error": describe(error)}
        print(json.dumps({**outcome, "waits": waits}), flush=True)


async def main_async():
    vault = None
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        waits.clear()
        if "client" in command:
            vault = make_client(strongroom.AsyncStrongroom, httpx.AsyncClient, command["client"])
        try:
            outcome = {"value": await call_async(vault, command)}
        except (Exception, asyncio.CancelledError) as error:
            outcome = {"error": describe(error)}
        print(json.dumps({**outcome, "waits": waits}), flush=True)


if sys.argv[1] == "async":
    asyncio.run(main_async())
else:
    main_sync()
