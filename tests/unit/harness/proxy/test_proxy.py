"""Kafka's framing, and the proxy between a client and a server.

The server answers each request with its correlation id.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from ackproof.cluster.network import reserved_ports
from ackproof.errors import ClusterError
from ackproof.proxy.proxy import (
    FramingError,
    LinkProxy,
    RequestHeader,
    Route,
    answered,
    read_message,
    request_header,
)
from ackproof_faults.interfaces.kafka_proxy import Rule

PRODUCE, METADATA = 0, 3
HERE = "127.0.0.1"


def request(key: int, correlation: int, client: str | None = "c", body: bytes = b"") -> bytes:
    name = b"" if client is None else client.encode()
    length = -1 if client is None else len(name)
    head = struct.pack(">hhih", key, 9, correlation, length)
    return struct.pack(">i", len(head + name + body)) + head + name + body


def response(correlation: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


def messages(connection: socket.socket) -> Iterator[bytes]:
    """Yield the messages, without their lengths, until the connection is closed."""
    with connection.makefile("rb") as stream:
        while head := stream.read(4):
            yield stream.read(*struct.unpack(">i", head))


class Server:
    """Answers every request and collects the correlation ids of requests."""

    def __init__(self, port: int) -> None:
        self.received: list[int] = []
        self.messages: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            for message in messages(connection):
                number = request_header(message).correlation_id
                self.received.append(number)
                self.messages.append(message)
                connection.sendall(response(number))

    def close(self) -> None:
        self._listening.close()


class Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._responses = (int.from_bytes(message[:4]) for message in messages(self._socket))

    def send(self, key: int, number: int, name: str = "c", body: bytes = b"") -> None:
        self._socket.sendall(request(key, number, name, body))

    def answer(self) -> int | None:
        """Return the next response's correlation id; None if the connection is closed."""
        return next(self._responses, None)

    def ask(self, key: int, number: int, name: str = "c") -> int | None:
        self.send(key, number, name)
        return self.answer()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def link() -> Iterator[tuple[LinkProxy, Server, Client]]:
    with reserved_ports() as ports, contextlib.ExitStack() as stack:
        listen, forward = next(ports), next(ports)
        server = Server(forward)
        stack.callback(server.close)
        proxy = LinkProxy()
        stack.enter_context(proxy.running())
        proxy.add_route(Route(broker=1, listen=(HERE, listen), forward=(HERE, forward)))
        client = Client(listen)
        stack.callback(client.close)
        yield proxy, server, client


Link = tuple[LinkProxy, Server, Client]


def rule(action: str, direction: str = "response", **more: object) -> Rule:
    return Rule(
        **{
            "api": "Produce",
            "direction": direction,
            "action": action,
            "brokers": frozenset({1}),
            **more,
        }
    )


def test_without_a_rule_every_message_is_forwarded(link: Link) -> None:
    _, server, client = link
    assert [client.ask(PRODUCE, n) for n in range(50)] == list(range(50))
    assert server.received == list(range(50))


def test_a_held_response_is_forwarded_in_order_when_the_rule_is_removed(link: Link) -> None:
    proxy, server, client = link
    hold = rule("hold")
    proxy.add(hold)
    client.send(PRODUCE, 1)
    assert proxy.hits(hold, at_least=1, within_s=60) == ["Produce v9 response 1 of c at broker 1"]
    assert proxy.held(hold) == 1
    assert server.received == [1]  # the server has answered it
    client.send(METADATA, 2)
    proxy.remove(hold)
    assert [client.answer(), client.answer()] == [1, 2]
    assert proxy.held(hold) == 0
    assert client.ask(PRODUCE, 3) == 3


def test_a_held_request_reaches_the_server_when_the_rule_is_removed(link: Link) -> None:
    proxy, server, client = link
    hold = rule("hold", "request")
    proxy.add(hold)
    client.send(PRODUCE, 1)
    assert proxy.hits(hold, at_least=1, within_s=60)
    assert server.received == []
    proxy.remove(hold)
    assert client.answer() == 1


def test_a_rule_matches_api_client_and_broker(link: Link) -> None:
    proxy, _, client = link
    for other in (
        rule("drop", api="EndTxn"),
        rule("drop", client="other"),
        rule("drop", brokers=frozenset({2})),
    ):
        proxy.add(other)
        assert client.ask(PRODUCE, 1, "c-1") == 1
        assert proxy.hits(other, at_least=1, within_s=0) == []
    mine = rule("drop", client="c-")
    proxy.add(mine)
    client.send(PRODUCE, 2, "c-1")
    assert client.ask(METADATA, 3, "c-1") == 3
    assert len(proxy.hits(mine, at_least=1, within_s=60)) == 1


def test_a_dropped_message_does_not_arrive(link: Link) -> None:
    proxy, server, client = link
    lost = rule("drop", count=1)
    proxy.add(lost)
    client.send(PRODUCE, 1)
    assert client.ask(PRODUCE, 2) == 2  # the count of the rule is 1
    assert server.received == [1, 2]
    proxy.remove(lost)
    proxy.add(rule("drop", "request"))
    client.send(PRODUCE, 3)
    assert client.ask(METADATA, 4) == 4
    assert server.received == [1, 2, 4]


def test_a_response_that_is_not_readable_gets_no_error(link: Link) -> None:
    proxy, _, client = link
    falsify = rule("error", error="NOT_LEADER_OR_FOLLOWER")
    proxy.add(falsify)
    assert client.ask(PRODUCE, 1) == 1  # this server's responses have no body
    assert proxy.hits(falsify, at_least=1, within_s=0) == []


def test_a_refused_request_is_sent_with_invalid_acks_and_answered_with_the_error(
    link: Link,
) -> None:
    proxy, server, client = link
    refuse = rule("error", "request", error="INVALID_RECORD", count=1)
    proxy.add(refuse)
    body = b"\0" + b"\0" + struct.pack(">hi", -1, 1500)  # no tags, no transactional id
    for number in (1, 2):
        client.send(PRODUCE, number, body=body)
        assert client.answer() == number
    assert len(proxy.hits(refuse, at_least=1, within_s=60)) == 1
    acks = [struct.unpack(">h", message[-6:-4]) for message in server.messages]
    assert acks == [(2,), (-1,)]


def test_a_duplicated_request_arrives_twice_and_has_one_response(link: Link) -> None:
    proxy, server, client = link
    proxy.add(rule("duplicate", "request"))
    assert client.ask(PRODUCE, 1) == 1
    assert client.ask(METADATA, 2) == 2
    assert server.received == [1, 1, 2]


def test_a_duplicated_response_arrives_twice(link: Link) -> None:
    proxy, _, client = link
    proxy.add(rule("duplicate"))
    client.send(PRODUCE, 1)
    assert [client.answer(), client.answer()] == [1, 1]


def test_a_cut_response_closes_the_connection_after_the_request_arrived(link: Link) -> None:
    proxy, server, client = link
    proxy.add(rule("cut"))
    assert client.ask(PRODUCE, 1) is None
    assert server.received == [1]


def test_a_delayed_response_arrives_without_removal_of_the_rule(link: Link) -> None:
    proxy, _, client = link
    late = rule("delay", delay_s=0.05)
    proxy.add(late)
    assert client.ask(PRODUCE, 1) == 1
    assert len(proxy.hits(late, at_least=1, within_s=0)) == 1
    assert proxy.held(late) == 0


def test_an_invalid_message_closes_the_connection(link: Link) -> None:
    _, server, client = link
    client._socket.sendall(struct.pack(">i", -5))
    assert client.answer() is None
    assert server.received == []


def test_the_error_names_a_port_that_is_in_use() -> None:
    with reserved_ports() as ports:
        port = next(ports)
        server = Server(port)
        proxy = LinkProxy()
        with proxy.running(), pytest.raises(ClusterError, match=f"cannot listen on port {port}"):
            proxy.add_route(Route(broker=1, listen=(HERE, port), forward=(HERE, 1)))
        server.close()


def read_all(stream: bytes) -> list[bytes]:
    """Return the messages of a stream that ends, read from pieces of one byte."""

    async def reading() -> list[bytes]:
        reader = asyncio.StreamReader()
        for at in range(len(stream)):
            reader.feed_data(stream[at : at + 1])
        reader.feed_eof()
        whole = []
        with contextlib.suppress(EOFError):
            while True:
                whole.append(await read_message(reader))
        return whole

    return asyncio.run(reading())


def test_messages_are_whole() -> None:
    sent = [request(0, number, body=bytes(number)) for number in range(4)]
    assert read_all(b"".join(sent) + sent[0][:-1]) == [message[4:] for message in sent]


@pytest.mark.parametrize("first", [b"\x16\x03\x01\x02\x00", struct.pack(">i", -1), b"\0\0\0\0"])
def test_an_invalid_length_is_an_error(first: bytes) -> None:
    with pytest.raises(FramingError):
        read_all(first + b"\xff" * 4)


def test_headers_are_parsed() -> None:
    assert request_header(request(26, 7, "p-1", b"body")[4:]) == RequestHeader(
        api_key=26, api_version=9, correlation_id=7, client_id="p-1"
    )
    assert request_header(request(3, 1, None)[4:]).client_id == ""
    with pytest.raises(FramingError):
        request_header(b"\0\0\0\1x")


def test_a_response_belongs_to_one_request() -> None:
    headers = [request_header(request(0, number)[4:]) for number in range(4)]
    pending = dict(enumerate(headers))
    answers = [answered(pending, response(number, b"x")[4:]) for number in (1, 0, 1, 3)]
    assert answers == [headers[1], None, None, headers[3]]  # request 0 gets no response
    with pytest.raises(FramingError):
        answered(pending, b"\0\0\1")
