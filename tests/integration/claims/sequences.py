"""Claims about the sequence numbers of batches, sent as bytes: no client sends a wrong one."""

from __future__ import annotations

import socket
import struct

from integration.claims.subject import SINCE_0_11, Observed, Subject, Trials
from segment_files import batch

trials: Trials[Subject] = Trials()

#: Of the answers: accepted, and refused because of the sequence number.
_ACCEPTED, _OUT_OF_ORDER = 0, 45
#: A record of one byte: its length and fields as zigzag varints, without key and headers.
_RECORD = bytes([14, 0, 0, 0, 1, 2]) + b"x" + bytes([0])
_LARGEST = 2**31 - 1


class _Leader:
    """A connection to broker 1, which leads the topic's partition."""

    def __init__(self, subject: Subject, topic: str) -> None:
        port = subject.cluster.nodes[1].spec.external_port
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.topic = topic.encode()

    def __enter__(self) -> _Leader:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, producer: int, sequence: int) -> tuple[int, int]:
        """Send a batch of one record (Produce, version 3); return error code and offset."""
        records = batch(0, payload=_RECORD, producer=producer, sequence=sequence)
        name = struct.pack(">h", len(self.topic)) + self.topic
        request = (
            struct.pack(">hhihhhi", 0, 3, sequence, -1, -1, -1, 30_000)
            + struct.pack(">i", 1) + name
            + struct.pack(">iii", 1, 0, len(records)) + records
        )  # fmt: skip
        self.connection.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", self._exactly(4))
        answer = self._exactly(length)
        begin = 4 + 4 + len(name) + 4 + 4
        error, offset = struct.unpack_from(">hq", answer, begin)
        return int(error), int(offset)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self.connection.recv(size - len(found))
            assert more, "the broker closed the connection: it cannot read the request"
            found += more
        return found


@trials.of("54", on=SINCE_0_11)
def a_broker_knows_five_batches_and_takes_only_the_next_sequence(subject: Subject) -> Observed:
    with _Leader(subject, subject.topic()) as leader:
        in_turn = [leader.send(1000, sequence) for sequence in range(6)]
        again, forgotten, ahead = (leader.send(1000, sequence) for sequence in (1, 0, 7))
        without_state, _ = leader.send(1001, 7)
    assert in_turn == [(_ACCEPTED, offset) for offset in range(6)], in_turn
    return Observed(
        holds=(again, forgotten[0], ahead[0]) == ((_ACCEPTED, 1), _OUT_OF_ORDER, _OUT_OF_ORDER)
        and without_state != _ACCEPTED,
        evidence=f"after the sequences 0 to 5: 1 again: error {again[0]}, offset {again[1]}; "
        f"0 again: error {forgotten[0]}; 7: error {ahead[0]}; 7 as the first one of another "
        f"producer: error {without_state}",
    )


@trials.of("N30", on=SINCE_0_11)
def sequences_wrap_round_to_0(subject: Subject) -> Observed:
    with _Leader(subject, subject.topic()) as leader:
        answers = [leader.send(1000, sequence)[0] for sequence in (_LARGEST, 0, 2)]
    return Observed(
        holds=answers == [_ACCEPTED, _ACCEPTED, _OUT_OF_ORDER],
        evidence=f"the sequences {_LARGEST}, 0 and 2 in turn: errors {answers}",
    )
