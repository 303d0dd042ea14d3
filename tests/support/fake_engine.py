"""A simulated container engine: its images, its registry, and its labelled objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from docker.errors import APIError, ImageNotFound, NotFound

Labelled = Sequence[tuple[str, Mapping[str, str]]]


def api_error(status: int, explanation: str) -> APIError:
    response: Any = SimpleNamespace(status_code=status, url="", reason="")
    kind = NotFound if status == 404 else APIError
    return kind("refused", response=response, explanation=explanation)


class FakeEngine:
    """Answers as `docker.DockerClient` and its `api` do.

    `images` are references of local images, `registry` those that can be pulled, or the error of
    the registry. `containers`, `networks` and `volumes` are names with labels. Each attempt to
    remove an object raises the next of its `errors`. Containers named in `running` run. `info` and
    `version` are the engine's answers.
    """

    def __init__(
        self,
        *images: str,
        registry: Iterable[str] | Exception = (),
        containers: Labelled = (),
        networks: Labelled = (),
        volumes: Labelled | None = None,
        errors: Mapping[str, list[Exception]] | None = None,
        running: Collection[str] = (),
        info: Mapping[str, Any] | None = None,
        version: Mapping[str, Any] | None = None,
    ) -> None:
        self.local = set(images)
        #: Labels of images by their references.
        self.labels: dict[str, dict[str, str]] = {}
        self.requests: list[tuple[str, float]] = []
        self.removed: list[str] = []
        self.info = lambda: dict(info or {})
        self.version = lambda: dict(version or {})
        self.images = SimpleNamespace(
            get=self._get_image, pull=self._pull, remove=self.removed.append
        )
        self.api = SimpleNamespace(
            timeout=60,
            inspect_distribution=self._inspect,
            containers=self._list_containers,
            networks=self._list_networks,
            volumes=self._list_volumes,
            remove_container=self._remove_container,
            remove_network=self._remove,
            remove_volume=self._remove,
        )
        self._registry = registry
        self._containers, self._networks, self._volumes = containers, networks, volumes
        self._errors = errors or {}
        self._running = running

    def _get_image(self, reference: str) -> Any:
        if reference not in self.local:
            raise ImageNotFound(reference)
        return SimpleNamespace(id=f"id of {reference}", labels=self.labels.get(reference, {}))

    def _inspect(self, reference: str) -> None:
        self.requests.append((reference, self.api.timeout))
        if isinstance(self._registry, Exception):
            raise self._registry
        if reference not in self._registry:
            raise APIError("404", explanation="manifest unknown")

    def _pull(self, repository: str, *, tag: str) -> None:
        self.local.add(f"{repository}:{tag}")

    def _list_containers(self, *, all: bool, filters: Mapping[str, str]) -> list[Any]:  # noqa: A002
        assert all
        assert filters == {"label": "io.ackproof=1"}
        return [
            {
                "Id": name,
                "Names": [f"/{name}"],
                "Labels": labels,
                "State": "running" if name in self._running else "exited",
            }
            for name, labels in self._containers
        ]

    def _list_networks(self, *, filters: Mapping[str, str]) -> list[Any]:
        return [{"Id": name, "Name": name, "Labels": labels} for name, labels in self._networks]

    def _list_volumes(self, *, filters: Mapping[str, str]) -> dict[str, Any]:
        volumes = self._volumes
        return {
            "Volumes": volumes and [{"Name": name, "Labels": labels} for name, labels in volumes]
        }

    def _remove_container(self, name: str, *, force: bool, v: bool) -> None:
        assert force
        assert v
        self._remove(name)

    def _remove(self, name: str) -> None:
        if errors := self._errors.get(name):
            raise errors.pop(0)
        self.removed.append(name)
