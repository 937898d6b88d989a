"""Processes of rivals: servers and measuring programs, which end with the block that started them."""

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# A rival that is not installed at that time is left out.
INSTALL_SECONDS_MAX = 1800
_START_SECONDS = 60
_STOP_SECONDS = 30
_POLL_SECONDS = 0.05
_LOG_LINES = 5
# How much later than asked for the kernel may end a sleep; of the process, and of those it starts.
_SLACK = Path("/proc/self/timerslack_ns")


class ProcessError(Exception):
    """A rival's program failed; says which, and what it printed."""


def free_port() -> int:
    """A port of the loopback interface that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def server(command: list[str], port: int, log: Path) -> Iterator[None]:
    """Runs a server within a `with`, once it listens on its port; what it prints goes to `log`."""
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            _wait_for(process, command[0], port, log)
            yield
        finally:
            _stop(process)


def _wait_for(process: subprocess.Popen[bytes], name: str, port: int, log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > until:
            raise ProcessError(f"{name} does not listen on port {port}: {_last(log)}")
        time.sleep(_POLL_SECONDS)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _stop(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Client:
    """A measuring program, which answers each line that it reads with a JSON object in a line."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self._command = ""

    def ask(self, words: list[str], seconds_max: float) -> dict[str, Any]:
        """Has it measure something."""
        self.tell(words)
        return self.answer(seconds_max)

    def tell(self, words: list[str]) -> None:
        """Has it begin to measure something."""
        assert self._process.stdin
        self._command = " ".join(words)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(self._command + "\n")
            self._process.stdin.flush()

    def answer(self, seconds_max: float) -> dict[str, Any]:
        """What it has measured."""
        assert self._process.stdout
        timer = threading.Timer(seconds_max, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise ProcessError(f"{self._command} failed, or took {seconds_max:.0f} s: {_last(self._log)}")
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            raise ProcessError(f"{self._command} was answered with {line!r}: {_last(self._log)}") from None
        return found

    def kill(self) -> None:
        """Ends it at once, as `kill -9` does."""
        self._process.kill()


@contextlib.contextmanager
def client(command: list[str], log: Path) -> Iterator[Client]:
    """Runs a measuring program within a `with`; its threads sleep exactly."""
    slack = _set_slack("1")
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True
        ) as process,
    ):
        _set_slack(slack)
        try:
            yield Client(process, log)
        finally:
            _stop(process)


def _set_slack(nanoseconds: str) -> str:
    """Sets the timer slack, and returns what it was; where that is not allowed, sleeps stay as they are."""
    before = nanoseconds
    with contextlib.suppress(OSError):
        before = _SLACK.read_text(encoding="ascii")
        _SLACK.write_text(nanoseconds, encoding="ascii")
    return before


def output(command: list[str], seconds_max: float | None = None, **variables: str) -> str:
    """What a program prints, if it succeeds in time; `variables` are added to its environment."""
    environment = {**os.environ, **variables}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds_max, env=environment)
    except subprocess.TimeoutExpired:
        raise ProcessError(f"{' '.join(command)} did not end within {seconds_max:.0f} s") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_LOG_LINES:]
        raise ProcessError(f"{' '.join(command)} failed: {' / '.join(last)}")
    return done.stdout


def _last(log: Path) -> str:
    return " / ".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])
