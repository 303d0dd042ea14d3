"""Kafka's framing, and the proxy between a client and a server.

The server answers each request with its correlation id.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.cluster.network import reserved_ports
from ackproof.errors import ClusterError
from ackproof.proxy.protocol import (
    Framer,
    FramingError,
    Pending,
    RequestHeader,
    correlation_id,
    request_header,
)
from ackproof.proxy.proxy import LinkProxy, Route
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


class Server:
    """Answers every request and collects the correlation ids of requests."""

    def __init__(self, port: int) -> None:
        self.received: list[int] = []
        self._listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        framer = Framer()
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(4096):
                for message in framer.feed(data):
                    number = request_header(message).correlation_id
                    self.received.append(number)
                    connection.sendall(response(number))

    def close(self) -> None:
        self._listening.close()


class Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._framer = Framer()
        self._responses: list[int] = []

    def send(self, key: int, number: int, name: str = "c") -> None:
        self._socket.sendall(request(key, number, name))

    def answer(self) -> int | None:
        """Return the next response's correlation id; None if the connection is closed."""
        while not self._responses:
            data = self._socket.recv(4096)
            if not data:
                return None
            self._responses += [correlation_id(message) for message in self._framer.feed(data)]
        return self._responses.pop(0)

    def ask(self, key: int, number: int, name: str = "c") -> int | None:
        self.send(key, number, name)
        return self.answer()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def link() -> Iterator[tuple[LinkProxy, Server, Client]]:
    with reserved_ports(2) as (listen, forward), contextlib.ExitStack() as stack:
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
    assert proxy.hits(hold, at_least=1, within_s=10) == ["Produce v9 response 1 of c at broker 1"]
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
    assert proxy.hits(hold, at_least=1, within_s=10)
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
    assert len(proxy.hits(mine, at_least=1, within_s=10)) == 1


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
    with reserved_ports(1) as (port,):
        server = Server(port)
        proxy = LinkProxy()
        with proxy.running(), pytest.raises(ClusterError, match=f"cannot listen on port {port}"):
            proxy.add_route(Route(broker=1, listen=(HERE, port), forward=(HERE, 1)))
        server.close()


@given(
    bodies=st.lists(st.binary(max_size=50), max_size=6),
    cuts=st.lists(st.integers(min_value=1, max_value=20), min_size=1, max_size=50),
)
def test_messages_are_whole_for_any_split(bodies: list[bytes], cuts: list[int]) -> None:
    messages = [request(0, number, body=body) for number, body in enumerate(bodies)]
    stream, framer, whole, at = b"".join(messages), Framer(), [], 0
    for length in [*cuts, len(stream)]:
        whole += framer.feed(stream[at : at + length])
        at += length
    whole += framer.feed(stream[at:])
    assert whole == messages


@pytest.mark.parametrize("first", [b"\x16\x03\x01\x02\x00", struct.pack(">i", -1), b"\0\0\0\0"])
def test_an_invalid_length_is_an_error(first: bytes) -> None:
    with pytest.raises(FramingError):
        Framer().feed(first + b"\xff" * 4)


def test_headers_are_parsed() -> None:
    assert request_header(request(26, 7, "p-1", b"body")) == RequestHeader(
        api_key=26, api_version=9, correlation_id=7, client_id="p-1"
    )
    assert request_header(request(3, 1, None)).client_id == ""
    assert correlation_id(response(9, b"x")) == 9
    with pytest.raises(FramingError):
        request_header(b"\0\0\0\1x")


def test_a_response_belongs_to_one_request() -> None:
    pending = Pending()
    headers = [request_header(request(0, number)) for number in range(4)]
    for header in headers:
        pending.sent(header)
    assert pending.answered(1) == headers[1]  # request 0 gets no response
    assert pending.answered(0) is None
    assert pending.answered(1) is None
    assert pending.answered(3) == headers[3]
