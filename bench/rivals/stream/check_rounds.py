"""The rounds with rivals that fail, without any program of theirs: `python3 -m stream.check_rounds` above here."""

import contextlib
import io
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common.process import ProcessError
from common.report import Row

from . import __main__ as program
from .rivals import Case
from .table import PERCENTILES


class Fake:
    """A rival whose installation fails, or whose server does so many times."""

    rehearsal_seconds = 0.0

    def __init__(self, key: str, *, is_installable: bool = True, failing_starts: int = 0) -> None:
        self.key = key
        self.cases = (Case("a", f"{key} a", measures_latency=True), Case("b", f"{key} b"))
        self._is_installable = is_installable
        self._failing_starts = failing_starts

    def install(self) -> None:
        if not self._is_installable:
            raise ProcessError("no network")

    @contextlib.contextmanager
    def serve(self, _folder: Path) -> Iterator[str]:
        self._failing_starts -= 1
        if self._failing_starts >= 0:
            raise ProcessError("it does not listen")
        yield "url"

    def program(self) -> list[str]:
        return ["cat"]


class FakeOurs:
    """TapeDB, which fails once."""

    def __init__(self, _tapedb: Path) -> None:
        self._failures = 1

    def missing(self) -> str | None:
        return None

    def benches(self) -> list[str]:
        return ["live"]

    def measure(self) -> list[Row]:
        self._failures -= 1
        if self._failures >= 0:
            raise ProcessError("it failed once")
        return [Row("live", "live.pairs.1", "rate", "messages/s", 1e6, 1e6, 1e6, 1, "a machine")]


def main() -> None:
    """Runs three rounds and looks at what was printed."""
    asked: Counter[str | None] = Counter()

    def ask(run: Any, _client: Any, _use: Case, what: str, _url: str, _seconds: float) -> dict[str, Any]:
        name = run._current
        asked[name] += 1
        if name == "good.b.live.4" or (name == "good.a.live.1" and asked[name] < 3):
            raise ProcessError(f"{name} failed")
        figures = dict.fromkeys(PERCENTILES, 1000) if what == "latency" else {"seconds": 1e-6}
        return {"messages": 5, **figures}

    program.rivals = lambda _cache: [
        Fake("good"),
        Fake("never", is_installable=False),
        Fake("slow", failing_starts=1),
        Fake("dead", failing_starts=1_000),
    ]
    program.Ours = FakeOurs
    program._Run._ask = ask
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        sys.argv = ["stream", "--rounds", "3", "--scratch", folder]
        program.main()
    text = printed.getvalue()
    for expected in (
        "| good a | **5.00 M/s** (5.00 … 5.00; 3) | **5.00 M/s** (5.00 … 5.00; 3) |",
        "| good b | **5.00 M/s** (5.00 … 5.00; 3) | – |",
        "| slow b | **5.00 M/s** (5.00 … 5.00; 3) |",
        "| **TapeDB** | **1.00 M/s** (1.00 … 1.00; 3) |",
        "- never left out, as it could not be installed: no network",
        "- good.b.live.4 was measured 0 of 3 times: good.b.live.4 failed",
        "- dead.a.latency was measured 0 of 3 times: it does not listen",
    ):
        if expected not in text:
            sys.exit(f"missing: {expected}\n\n{text}")
    print("the rounds go on whatever fails")


if __name__ == "__main__":
    main()
