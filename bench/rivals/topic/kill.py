"""What a killed subscriber does to its publisher: how long nothing can be published."""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common.process import client

from .rivals import Rival

# How long the subscriber lives, and how long the publisher is watched in all.
_ALIVE_SECONDS = 1.0
_WATCHED_SECONDS = 20
_GRACE_SECONDS = 60


def stall(rival: Rival, folder: Path) -> dict[str, Any]:
    """Starts both in processes of their own, kills the subscriber, and gives what the publisher says."""
    place = f"tapedb-rival-kill-{os.getpid()}"
    with ExitStack() as stack:
        publisher = stack.enter_context(client(rival.program(), folder / "publisher.log"))
        publisher.tell(["publish", f"place={place}", f"seconds={_WATCHED_SECONDS}"])
        # The publisher's process is the host.
        time.sleep(_ALIVE_SECONDS)
        subscriber = stack.enter_context(client(rival.program(), folder / "subscriber.log"))
        subscriber.tell(["subscribe", f"place={place}", "guest=true"])
        time.sleep(2 * _ALIVE_SECONDS)
        subscriber.kill()
        return publisher.answer(_WATCHED_SECONDS + _GRACE_SECONDS)


def line(rival: Rival, found: dict[str, Any]) -> str:
    """One line of the table."""
    stalled = "hangs for good" if found["hangs"] else f"{found['stall_ms'] / 1e3:,.3f} s"
    return f"| {rival.title} | {stalled} |"


HEAD = "| subscriber killed | nothing can be published for |\n|---|---:|"
