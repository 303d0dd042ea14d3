"""A container engine of a test's own, whose daemon can be killed without harm to others."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from docker import DockerClient
from docker.errors import DockerException

from ackproof.errors import EngineError
from ackproof.waiting import wait_for


class PrivateEngine:
    """A `dockerd` beside the machine's, with folders, a socket and networks of its own."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="engine-"))  # a socket's path has 107 letters
        self.address = f"unix://{self._folder / 's'}"
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._daemon.terminate()
        self._daemon.wait()
        subprocess.run(["umount", "--lazy", str(self._folder / "data")], check=False)
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start the daemon, on what a killed one has left."""
        pid_file = self._folder / "pid"
        pid_file.unlink(missing_ok=True)
        with (self._folder / "log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [
                    "dockerd",
                    f"--host={self.address}",
                    f"--data-root={self._folder / 'data'}",
                    f"--exec-root={self._folder / 'exec'}",
                    f"--pidfile={pid_file}",
                    "--bridge=none",
                    "--default-address-pool=base=10.213.0.0/16,size=24",
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(
            self._client,
            lambda client: client is not None,
            within_s=60,
            failure=lambda _: EngineError((self._folder / "log").read_text()[-2000:]),
        )

    def kill(self) -> None:
        """End the daemon by SIGKILL; its containers go on."""
        self._daemon.kill()
        self._daemon.wait()

    def client(self) -> DockerClient:
        return DockerClient(self.address, timeout=120)

    def load(self, images: Iterable[str], engine: DockerClient) -> None:
        """Copy images from another engine."""
        for image in images:
            self.client().images.load(engine.images.get(image).save(named=True))

    def _client(self) -> DockerClient | None:
        try:
            client = self.client()
            client.ping()
        except DockerException:
            return None
        return client
