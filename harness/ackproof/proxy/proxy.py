"""The Kafka proxy: a port of this machine in front of each proxied listener of a node.

It runs in a thread of this process, so it ends with the harness. Without a rule, it forwards every
message as soon as the message is complete.

It reads only Kafka's framing, the responses whose error codes a rule sets, followers' fetches, and
the ends of partitions that clients ask for.
A message is a length (int32) and that number of bytes. A request begins with API key (int16), API
version (int16), correlation id (int32) and client id (nullable string); a response with the
correlation id. This is the same in every version (`RequestHeader.json`, `ResponseHeader.json`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ackproof.errors import ClusterError
from ackproof.proxy import follower_fetches, listed_ends
from ackproof.proxy.errors import refused, with_error
from ackproof.proxy.follower_fetches import EarlyHighWatermark, FollowerFetches
from ackproof.proxy.listed_ends import ListedEnd, ListedEnds
from ackproof_faults.interfaces.kafka_proxy import API_KEYS, ERROR_CODES, Direction, Link, Rule

T = TypeVar("T")

_CHUNK = 1 << 18

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhih")
_RESPONSE = struct.Struct(">i")
#: `socket.request.max.bytes` is 100 MiB by default. The first bytes of TLS look like more.
_MAX_LENGTH = 200 << 20


class FramingError(ValueError):
    """The bytes are not Kafka's protocol; they may be TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    #: The code that its answer reports, if a rule made the broker refuse the request.
    refused_with: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The proxy's address for a listener of a node (`listen`), and the listener's (`forward`)."""

    broker: int
    listen: tuple[str, int]
    forward: tuple[str, int]


@dataclass(slots=True, kw_only=True)
class _ActiveRule:
    """A rule, the messages that it matched, and the number of messages that it holds."""

    rule: Rule
    removed: asyncio.Event = field(default_factory=asyncio.Event)
    hits: list[str] = field(default_factory=list)
    holding: int = 0


class LinkProxy(Link):
    """Forwards messages of clients and nodes to nodes, and applies the rules of faults to them.

    Its methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="link")
        self._rules: dict[Rule, _ActiveRule] = {}
        #: Removed rules that may still hold messages.
        self._ending: dict[Rule, _ActiveRule] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._hit = threading.Condition()
        self._fetches = FollowerFetches()
        self._ends = ListedEnds()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run until the context ends. Routes may be added inside it."""
        self._thread.start()
        try:
            yield
        finally:
            self._close()

    def add_route(self, route: Route) -> None:
        """Listen for a broker's clients; raise ClusterError if the port is in use."""

        async def listen() -> None:
            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None  # asyncio runs this in a task
                self._connections.add(task)
                task.add_done_callback(self._connections.discard)
                with contextlib.suppress(asyncio.CancelledError):  # `_close` cancels it
                    await self._serve(route, reader, writer)

            listening = socket.create_server(route.listen)
            # A small buffer, so that senders wait while a rule holds a message.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _CHUNK)
            self._servers.append(await asyncio.start_server(accept, sock=listening, limit=_CHUNK))

        try:
            asyncio.run_coroutine_threadsafe(listen(), self._loop).result()
        except OSError as error:
            raise ClusterError(
                f"the Kafka proxy cannot listen on port {route.listen[1]} of {route.listen[0]}: "
                f"{error}",
                hint="Start again: each start chooses other ports. INTERNAL and CONTROLLER can be "
                "proxied only if the container engine runs on this machine.",
            ) from error

    def _close(self) -> None:
        """Close every connection and end the thread."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = list(self._connections)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, rule: Rule) -> None:
        self._in_loop(lambda: self._rules.setdefault(rule, _ActiveRule(rule=rule)))

    def remove(self, rule: Rule) -> None:
        def end() -> None:
            if active := self._rules.pop(rule, None):
                self._ending[rule] = active
                active.removed.set()

        self._in_loop(end)

    def hits(self, rule: Rule, *, at_least: int, within_s: float) -> list[str]:
        with self._hit:
            self._hit.wait_for(
                lambda: rule not in self._rules or len(self._rules[rule].hits) >= at_least,
                timeout=within_s,
            )
            active = self._rules.get(rule)
            return list(active.hits) if active else []

    def held(self, rule: Rule) -> int:
        def count() -> int:
            active = self._rules.get(rule) or self._ending.get(rule)
            return active.holding if active else 0

        return self._in_loop(count)

    def early_high_watermarks(self) -> list[EarlyHighWatermark]:
        """Return the high watermarks that leaders have set above what a follower has fetched."""
        return self._in_loop(lambda: list(self._fetches.early))

    def listed_ends(self) -> list[ListedEnd]:
        """Return the ends of partitions that brokers have told clients."""
        return self._in_loop(lambda: list(self._ends.answers))

    def _in_loop(self, act: Callable[[], T]) -> T:
        async def acted() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(acted(), self._loop).result()

    # The methods below run in the proxy's thread.

    async def _serve(
        self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Forward both directions of one connection until one side closes it."""
        with _closing(writer):
            try:
                responses, requests = await asyncio.open_connection(*route.forward, limit=_CHUNK)
            except OSError:
                return  # the broker is down, so the client's connection is closed, too
            with _closing(requests):
                pending: dict[int, RequestHeader] = {}
                pumps = [
                    asyncio.create_task(self._pump(route, "request", reader, requests, pending)),
                    asyncio.create_task(self._pump(route, "response", responses, writer, pending)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self,
        route: Route,
        direction: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pending: dict[int, RequestHeader],
    ) -> None:
        """Forward one direction of a connection until it ends or a rule cuts it.

        `pending` are the connection's requests without a response, by correlation id.
        """
        with contextlib.suppress(OSError, EOFError, FramingError):
            while True:
                message = await read_message(reader)
                header: RequestHeader | None
                if direction == "request":
                    header = request_header(message)
                    pending[header.correlation_id] = header
                else:
                    header = answered(pending, message)
                self._observe(route, direction, header, message)
                forwarded = await self._forwarded(route, direction, header, message, pending)
                if forwarded is None:
                    return
                for each in forwarded:
                    writer.write(_LENGTH.pack(len(each)) + each)
                await writer.drain()

    def _observe(
        self, route: Route, direction: Direction, header: RequestHeader | None, message: bytes
    ) -> None:
        if header is None:
            return
        version, client = header.api_version, header.client_id
        if header.api_key == follower_fetches.API_KEY:
            note = self._fetches.request if direction == "request" else self._fetches.response
            note(route.broker, client, version, message)
        elif header.api_key == listed_ends.API_KEY:
            end = self._ends.request if direction == "request" else self._ends.response
            end(route.broker, client, header.correlation_id, version, message)

    async def _forwarded(
        self,
        route: Route,
        direction: Direction,
        header: RequestHeader | None,
        message: bytes,
        pending: dict[int, RequestHeader],
    ) -> Sequence[bytes] | None:
        """Wait if a rule holds the message; return what to forward, None to disconnect."""
        if header is None:
            return ()  # clients reject a second response (to a duplicated request)
        version = header.api_version
        if direction == "response" and header.refused_with is not None:
            message = with_error("Produce", message, version, header.refused_with) or message
        active = self._matching(route, direction, header)
        if active is None:
            return (message,)
        rule = active.rule
        if rule.action == "error":
            code = ERROR_CODES[rule.error]
            if direction == "request":
                changed = refused(message, version)
            else:
                changed = with_error(rule.api, message, version, code)
            if changed is None:
                return (message,)  # so that the fault is not verified
            message = changed
            if direction == "request":
                pending[header.correlation_id] = replace(header, refused_with=code)
        self._note(active, route, header)
        if rule.action in ("hold", "delay"):
            active.holding += 1
            try:
                limit = rule.delay_s if rule.action == "delay" else None
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(active.removed.wait(), limit)
            finally:
                active.holding -= 1
        copies = {"drop": 0, "duplicate": 2}.get(rule.action, 1)
        return None if rule.action == "cut" else (message,) * copies

    def _matching(
        self, route: Route, direction: Direction, header: RequestHeader
    ) -> _ActiveRule | None:
        for active in self._rules.values():
            rule = active.rule
            if (
                rule.direction == direction
                and API_KEYS[rule.api] == header.api_key
                and route.broker in rule.brokers
                and header.client_id.startswith(rule.client)
                and (rule.count is None or len(active.hits) < rule.count)
            ):
                return active
        return None

    def _note(self, active: _ActiveRule, route: Route, header: RequestHeader) -> None:
        rule = active.rule
        with self._hit:
            active.hits.append(
                f"{rule.api} v{header.api_version} {rule.direction} {header.correlation_id} of "
                f"{header.client_id or 'a client'} at broker {route.broker}"
            )
            self._hit.notify_all()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """Return the next message without its length.

    Raises FramingError for an invalid length, EOFError if the stream ends before the message does.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if not 0 < length < _MAX_LENGTH:
        raise FramingError(f"a message of {length} bytes")
    return await reader.readexactly(length)


def request_header(message: bytes) -> RequestHeader:
    """Return a request's header; raise FramingError if the message is too short."""
    if len(message) < _REQUEST.size:
        raise FramingError(f"a request of {len(message)} bytes")
    key, version, correlation_id, length = _REQUEST.unpack_from(message)
    name = message[_REQUEST.size : _REQUEST.size + max(0, length)]
    return RequestHeader(
        api_key=key,
        api_version=version,
        correlation_id=correlation_id,
        client_id=name.decode(errors="replace"),
    )


def answered(pending: dict[int, RequestHeader], response: bytes) -> RequestHeader | None:
    """Remove and return the request of this response; None for a second response.

    A broker answers a connection's requests in order. A request that is older than an answered one
    gets no response (Produce with acks=0) and is removed, too. Raises FramingError if the response
    is too short.
    """
    if len(response) < _RESPONSE.size:
        raise FramingError(f"a response of {len(response)} bytes")
    (answer,) = _RESPONSE.unpack_from(response)
    header = pending.get(answer)
    if header is not None:
        for number in list(pending):
            del pending[number]
            if number == answer:
                break
    return header


@contextlib.contextmanager
def _closing(writer: asyncio.StreamWriter) -> Iterator[None]:
    """Close a connection at once, without sending buffered data."""
    try:
        yield
    finally:
        writer.close()
