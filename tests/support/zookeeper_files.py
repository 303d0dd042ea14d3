"""Transactions and snapshots of ZooKeeper, as its nodes write them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from zlib import adler32

#: Of a transaction log: magic, version, database.
HEADER = b"ZKLG" + struct.pack(">iq", 2, 0)

CREATE, DELETE, SET_DATA, CLOSE_SESSION, MULTI = 1, 2, 5, -11, 14
STATE = "/brokers/topics/t/partitions/0/state"


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def create(path: str, data: object, *, ephemeral: bool = False) -> tuple[int, bytes]:
    rights = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
    return CREATE, text(path) + text(json.dumps(data)) + rights + struct.pack(">?i", ephemeral, 1)


def changed(path: str, data: object, version: int) -> tuple[int, bytes]:
    return SET_DATA, text(path) + text(json.dumps(data)) + struct.pack(">i", version)


def deleted(path: str) -> tuple[int, bytes]:
    return DELETE, text(path)


def transaction(
    zxid: int, kind: int, body: bytes, *, session: int = 7, milliseconds: int = 1000
) -> bytes:
    content = struct.pack(">qiqqi", session, 1, zxid, milliseconds, kind) + body
    return struct.pack(">qi", adler32(content), len(content)) + content + b"B"


def leads(leader: int, epoch: int, isr: list[int]) -> dict[str, object]:
    return {"leader": leader, "leader_epoch": epoch, "isr": isr, "version": 1}


TOPIC = transaction(1, *create("/brokers/topics/t", {"partitions": {"0": [1, 2]}}))
CREATED = transaction(2, *create(STATE, leads(1, 0, [1, 2])))


def snapshot(content: Mapping[str, object], *, ephemeral: Mapping[str, int] | None = None) -> bytes:
    """Return a snapshot with these znodes. ephemeral: the sessions of those that have one."""
    sessions = struct.pack(">iqi", 1, 7, 6000)
    rights = struct.pack(">iqii", 1, 1, 1, 31) + text("world") + text("anyone")
    nodes = b""
    for path, data in {"": "", **content}.items():
        owner = (ephemeral or {}).get(path, 0)
        stat = struct.pack(">qqqqqiiiqq", 1, 1, 1, 1000, 1000, 4, 0, 0, owner, 1)
        nodes += text(path) + text(json.dumps(data)) + stat
    return b"ZKSN" + struct.pack(">iq", 2, -1) + sessions + rights + nodes + text("/")
