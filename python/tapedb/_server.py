"""A server inside this process: for tests and notebooks. In production, `tapedb server` is a program of its own."""

from __future__ import annotations

import os
from typing import Any

from . import _tapedb
from ._closing import Closing


class Server(Closing):
    """A running server. As a context manager it shuts down at the end."""

    def __init__(self, server: _tapedb.Server) -> None:
        self._server = server

    @property
    def url(self) -> str:
        """The URL for clients on this machine: `tapedb.open(server.url)`."""
        return self._server.url or ""

    @property
    def unix_socket(self) -> str | None:
        """The Unix socket; `tape+unix://PATH` and `tape+shm://PATH` (shared memory) are its URLs."""
        return self._server.unix_socket

    @property
    def http(self) -> str | None:
        """Address of `/health`, `/status` and `/metrics`."""
        return self._server.http

    @property
    def connections(self) -> int:
        """Connections at this moment."""
        return self._server.connections

    @property
    def closed(self) -> bool:
        """Whether it was shut down."""
        return self._server.is_closed

    def close(self) -> None:
        """Shuts down: connections finish what they are doing."""
        self._server.close()

    def __repr__(self) -> str:
        return "Server(closed)" if self.closed else f"Server({self.url})"


def serve(
    path: str | os.PathLike[str],
    listen: str | None = None,
    *,
    http: str = "off",
    unix_socket: str | os.PathLike[str] | None = None,
    users: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Server:
    """Starts a server for a database, which is created if it does not exist.

    Args:
        path: The directory of the database. It must not be open in this process.
        listen: `host:port`, port 0 for any free one, or "off". Default: 127.0.0.1 and any free port.
        http: Address of health and metrics, or "off".
        unix_socket: A socket for clients on this machine.
        users: The users file; without it every client may do everything.
        settings: Others of the server's configuration (docs/SERVER.md), such as `durability_min="sync"`, or `limits={…}`.

    Examples:
        >>> with tapedb.serve("served.tapedb") as server, tapedb.open(server.url) as remote:
        ...     remote.create("ticks", "message Tick { price: f64 }")
        Stream('ticks': Tick)
    """
    found = _tapedb.serve(
        os.fspath(path),
        listen=listen or "127.0.0.1:0",
        http=http,
        unix_socket=None if unix_socket is None else os.fspath(unix_socket),
        users=None if users is None else os.fspath(users),
        config=_toml(settings) if settings else None,
    )
    return Server(found)


def _toml(settings: dict[str, Any], table: str = "") -> str:
    """Settings as TOML: plain values first, then tables."""
    import json

    lines = [f"[{table}]"] if table else []
    for key, value in settings.items():
        if not isinstance(value, dict):
            lines.append(f"{key} = {json.dumps(value)}")
    for key, value in settings.items():
        if isinstance(value, dict):
            lines.append(_toml(value, f"{table}.{key}" if table else key))
    return "\n".join(lines) + "\n"
