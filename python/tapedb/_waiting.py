"""Waits of coroutines: on a thread of the object that is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# A wait in pieces: one that is cancelled does not occupy the thread for longer.
_PIECE = 0.2


class Waiting:
    """Calls a function that waits at most so many seconds, and keeps what it finds for the next call of its object."""

    def __init__(self, wait: Callable[[float], object]) -> None:
        self._wait = wait
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    async def once(self) -> None:
        """Waits once. When the task is cancelled, the thread ends by itself, and nothing is lost."""
        # Here, because it is half of the time that importing the package would take: most programs have no coroutines.
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "tapedb-waiting")
            executor = self._executor
        await asyncio.get_running_loop().run_in_executor(executor, self._wait, _PIECE)

    def close(self) -> None:
        """Lets the thread end."""
        with self._lock:
            if self._executor is not None:
                self._executor.shutdown(wait=False)
                self._executor = None
