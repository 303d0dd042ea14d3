"""What holds the logs of brokers: a volume, a pod or a container."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from ackproof.own_config.configuration import FileLine, Given, Holder, Settings, Storage
from ackproof.own_config.parts import Mount, Mounts

LOG_DIRS = ("log.dirs", "log.dir")
#: Folders and files beside the logs: configurations, certificates, libraries, sockets.
_NO_LOGS = re.compile(
    r".*\.\w{2,10}|/(etc|usr|run|var/run|docker-entrypoint\S*|home)(/.*)?"
    r"|.*/(\w*secrets?|certs?|\w*ssl|tls|conf|config|scripts?|libs|plugins?|jmx\S*|jaas)(/.*)?"
)


def of_container(container: Mounts, stated: Given | None) -> Storage | None:
    """Return what holds a container's logs; None if its file does not show it.

    stated: `log.dirs` of its broker.
    """
    folders = [one.strip() for one in stated.value.split(",")] if stated else container.log_dirs
    if not folders or not all(folder.startswith("/") for folder in folders):
        return _of_unknown_folder(container)
    found = [_of_folder(container, folder, stated) for folder in folders]
    return None if None in found else shortest_lived(found)


def _of_folder(container: Mounts, folder: str, stated: Given | None) -> Storage | None:
    covering = [one for one in container.mounts if PurePosixPath(folder).is_relative_to(one.path)]
    if covering:
        return _mounted(max(covering, key=lambda one: len(one.path)), folder)
    volume = next((one for one in _for_logs(container) if one.holder is Holder.VOLUME), None)
    if volume is None:
        return _own_layer(container, folder)
    source = stated.source if stated else container.source
    return Storage(
        holder=Holder.CONTAINER,
        restart_keeps=container.restart_keeps,
        setting=LOG_DIRS[0],
        value=folder,
        source=source if isinstance(source, FileLine) else container.source,
        change=f"a folder below {volume.path}",
    )


def _for_logs(container: Mounts) -> list[Mount]:
    """Return the mounts that may be made for logs, by their paths."""
    return [one for one in container.mounts if not _NO_LOGS.fullmatch(one.path)]


def _of_unknown_folder(container: Mounts) -> Storage | None:
    """Return what holds every folder that may have the logs, if that is the same for all."""
    mounts = _for_logs(container)
    if not mounts:
        return _own_layer(container, "")
    kinds = {(one.holder, one.restart_keeps) for one in mounts}
    known = len(kinds) == 1 and mounts[0].holder is not Holder.VOLUME
    return _mounted(mounts[0], mounts[0].path) if known else None


def _own_layer(container: Mounts, folder: str) -> Storage:
    of = f" for {folder}" if folder else ""
    return Storage(
        holder=Holder.CONTAINER,
        restart_keeps=container.restart_keeps,
        setting=container.setting,
        value=f"none{of}",
        source=container.source,
        change=f"a volume{of}",
    )


def _mounted(mount: Mount, folder: str) -> Storage | None:
    if mount.holder is None:
        return None
    return Storage(
        holder=mount.holder,
        restart_keeps=mount.restart_keeps,
        setting=mount.setting,
        value=mount.value,
        source=mount.source,
        change="" if mount.holder is Holder.VOLUME else f"a volume for {folder}",
    )


def shortest_lived(found: Iterable[Storage | None]) -> Storage | None:
    """Return the storage that keeps a log for the shortest time; None if none is known."""
    return min(filter(None, found), key=_lifetime, default=None)


def _lifetime(storage: Storage) -> tuple[bool, bool, bool]:
    return (
        storage.holder is Holder.VOLUME,
        storage.restart_keeps,
        storage.holder is Holder.POD,
    )


def log_dirs(settings: Settings) -> Given | None:
    return next((settings[key] for key in LOG_DIRS if key in settings), None)


def of_brokers(
    brokers: Sequence[tuple[Storage | Mounts | None, Settings]], common: Settings, notes: list[str]
) -> Storage | None:
    """Return what holds the logs of brokers, the shortest-lived if they differ.

    brokers: of each what its file shows, and its settings. common: the settings of all brokers.
    """
    folders = [log_dirs(settings) or log_dirs(common) if one else None for one, settings in brokers]
    found = [
        of_container(one, folder) if isinstance(one, Mounts) else one
        for (one, _), folder in zip(brokers, folders, strict=True)
    ]
    known = {one.holder: one for one in reversed(found) if one}
    shortest = shortest_lived(found)
    if shortest and len(known) > 1:
        places = ", ".join(f"{one.holder} ({one.source})" for one in known.values())
        notes.append(
            f"what holds the logs differs between brokers: {places}; the answer takes "
            f"{shortest.holder}"
        )
    return shortest
