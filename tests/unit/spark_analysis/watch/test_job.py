"""What a watch keeps beside its checkpoint."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ackproof_spark.errors import WarehouseError
from ackproof_spark.spark.files import ArrowFiles
from ackproof_spark.watch.job import WatchOptions, continued

OPTIONS = WatchOptions(bootstrap_servers="none", topics=["orders"], start={"orders": {"0": 5}})


def test_a_watch_goes_on_from_the_offsets_of_its_first_start(tmp_path: Path) -> None:
    """It may have ended before its first look; partition 1 was added while it did not run."""
    storage = ArrowFiles(str(tmp_path))
    name, start = continued(storage, "_watch", OPTIONS)
    assert start == {"orders": {"0": 5}}
    later = dataclasses.replace(OPTIONS, start={"orders": {"0": 9, "1": 4}})
    assert continued(storage, "_watch", later) == (name, start)


def test_a_checkpoint_of_other_options_or_that_is_damaged_is_refused(tmp_path: Path) -> None:
    storage = ArrowFiles(str(tmp_path))
    continued(storage, "_watch", OPTIONS)
    with pytest.raises(WarehouseError, match="with header 'ackproof-id', not 'id'"):
        continued(storage, "_watch", dataclasses.replace(OPTIONS, header="id"))
    for text in ("", "[]", '{"name": "orders"}'):
        storage.write("_watch/watch.json", text)
        with pytest.raises(WarehouseError, match="is damaged"):
            continued(storage, "_watch", OPTIONS)
