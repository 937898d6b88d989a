"""NATS JetStream: one server, streams of one replica in files, clients in Rust.

Acknowledged means written to the file (one `write` a message, before its acknowledgment: the default for
one replica), so in the operating system's hands; the server syncs every two minutes (`sync_interval`, the
default). That is `async`.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from common.process import INSTALL_SECONDS_MAX, free_port, output, server
from . import PACKED, Case

_SERVER = "github.com/nats-io/nats-server/v2"
_VERSION = "v2.15.2"
_CLIENT = Path(__file__).parent.parent / "nats"


class JetStream:
    """See the module."""

    key = "jetstream"
    rehearsal_seconds = 1.0
    cases: tuple[Case, ...] = (
        Case("acked", "NATS JetStream, each message acknowledged", measures_latency=True),
        Case("fast", "NATS JetStream, fast ingest", {"fast": "true"}, measures_latency=True),
        Case("packed", f"NATS JetStream, {PACKED} records a message", {"packed": str(PACKED)}),
    )

    def __init__(self, cache: Path) -> None:
        self._server = cache / f"nats-server-{_VERSION}" / "nats-server"
        self._target = cache / "nats-client"

    def install(self) -> None:
        """The server with Go, the client with Cargo."""
        if not self._server.exists():
            go = ["go", "install", f"{_SERVER}@{_VERSION}"]
            output(go, INSTALL_SECONDS_MAX, GOBIN=str(self._server.parent))
        manifest = str(_CLIENT / "Cargo.toml")
        build = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest]
        output([*build, "--target-dir", str(self._target)], INSTALL_SECONDS_MAX)

    @contextlib.contextmanager
    def serve(self, folder: Path) -> Iterator[str]:
        """With JetStream, else as it comes."""
        port = free_port()
        command = [str(self._server), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
        with server(command, port, folder / "server.log"):
            yield f"nats://127.0.0.1:{port}"

    def program(self) -> list[str]:
        """Built by `install`."""
        return [str(self._target / "release" / "tapedb-rival-nats")]
