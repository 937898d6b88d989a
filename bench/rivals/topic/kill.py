"""What a killed subscriber does to its publisher: how long nothing can be published."""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common.process import client

from .rivals import Rival

# How long the subscriber lives, and how long the publisher is watched from when it is there.
_ALIVE_SECONDS = 1.0
_WATCHED_SECONDS = 15
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
        # It answers when it is there.
        subscriber.ask(["subscribe", f"place={place}", "guest=true"], _GRACE_SECONDS)
        time.sleep(_ALIVE_SECONDS)
        subscriber.kill()
        return publisher.answer(_WATCHED_SECONDS + _GRACE_SECONDS)


def line(title: str, stall_ms: float, hangs: bool) -> str:
    """One line of the table."""
    stalled = f"more than {stall_ms / 1e3:,.0f} s" if hangs else f"{stall_ms / 1e3:,.3f} s"
    return f"| {title} | {stalled} |"


HEAD = "| its subscriber was killed | nothing can be published for |\n|---|---:|"
