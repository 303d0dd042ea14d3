"""librdkafka's mock cluster with errors on demand, by the library that confluent-kafka ships."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

#: API keys.
PRODUCE, END_TXN, TXN_OFFSET_COMMIT = 0, 26, 28


def _library() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    libraries = sorted(folder.glob("librdkafka*.so*"))
    if not libraries:
        pytest.skip("this confluent-kafka does not ship librdkafka as a library of its own")
    library = ctypes.CDLL(str(libraries[0]))
    for name in ("conf_new", "new", "mock_cluster_new"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class MockCluster:
    """Three brokers in this process, which answer requests as told."""

    def __init__(self) -> None:
        self._library = _library()
        configuration = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        self._client = ctypes.c_void_p(
            self._library.rd_kafka_new(0, configuration, ctypes.create_string_buffer(512), 512)
        )
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_mock_cluster_new(self._client, 3))
        self.bootstrap = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def answer_produce(self, *codes: int) -> None:
        """Answer the next Produce requests with these errors."""
        self.answer(PRODUCE, *codes)

    def answer(self, api: int, *codes: int) -> None:
        """Answer the next requests of an API with these errors."""
        errors = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(api), ctypes.c_size_t(len(codes)), errors
        )

    def answer_late(self, api: int, *answers: tuple[int, int]) -> None:
        """Answer the next requests at each broker with an error (0: none), after milliseconds."""
        flat = [ctypes.c_int(number) for answer in answers for number in answer]
        for broker in (1, 2, 3):
            self._library.rd_kafka_mock_broker_push_request_error_rtts(
                self._cluster,
                ctypes.c_int32(broker),
                ctypes.c_int16(api),
                ctypes.c_size_t(len(answers)),
                *flat,
            )

    def follow(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the replica that consumers of a partition are sent to (KIP-392)."""
        self._library.rd_kafka_mock_partition_set_follower(
            self._cluster, topic.encode(), ctypes.c_int32(partition), ctypes.c_int32(broker)
        )

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)


@contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    cluster = MockCluster()
    try:
        yield cluster
    finally:
        cluster.close()
