"""The bytes of a record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof_spark.record import (
    HEADER_SIZE,
    decode,
    encoder,
    run_token,
)

NUMBERS = st.integers(0, 2**63 - 1)


@given(producer=NUMBERS, sequence=NUMBERS, size=st.integers(HEADER_SIZE, 200))
def test_encoded_records_are_decoded(producer, sequence, size):
    value = encoder(run_id="r", producer=producer, size=size)(sequence)
    assert len(value) == size
    assert decode(value) == (run_token("r"), producer, sequence)


@given(position=st.integers(0, 63), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(position, bit):
    value = bytearray(encoder(run_id="r", producer=1, size=64)(2))
    value[position] ^= 1 << bit
    assert decode(bytes(value)) is None


def test_a_record_smaller_than_its_header_is_refused():
    with pytest.raises(ValueError, match="at least 32 bytes, not 31"):
        encoder(run_id="r", producer=1, size=31)
