"""Progress of long reads and loads: with tqdm where it is installed, else a line on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_of(wanted: bool, what: str, total: int | None = None) -> Iterator[Callable[[int], None] | None]:
    """A function to call with how much is done so far; `None` where no progress is wanted."""
    if not wanted:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield from _plain(what, total)
        return
    with tqdm(desc=what, total=total, unit="", unit_scale=True) as bar:

        def show(done: int) -> None:
            bar.update(done - bar.n)

        yield show


def _plain(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    begun = last = time.monotonic()
    shown = 0

    def show(done: int) -> None:
        nonlocal last, shown
        shown = done
        now = time.monotonic()
        if now - last >= 0.5:
            last = now
            of = f" of {total:,}" if total else ""
            print(f"\r{what}: {done:,}{of}, {done / (now - begun):,.0f}/s", end="", file=sys.stderr, flush=True)

    yield show
    seconds = max(time.monotonic() - begun, 1e-9)
    print(f"\r{what}: {shown:,}, {shown / seconds:,.0f}/s", file=sys.stderr, flush=True)
