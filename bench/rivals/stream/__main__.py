"""`bench/rivals/run stream`: the command line, and the rounds."""

import argparse
import fnmatch
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common.machine import Machine
from common.report import Report, Row

from .ours import Ours
from common.process import Client, ProcessError, client
from .rivals import Case, Rival, rivals
from .rivals.jetstream import JetStream
from .table import PAIRS, PERCENTILES, case, latency_table, throughput_table

_HERE = Path(__file__).parent.parent
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tapedb-rivals"
# How much longer than it measures a program may take, to start, to read what is left, and to stop.
_GRACE_SECONDS = 120


def main() -> None:
    """Runs the benchmark; failures are one line and exit code 1."""
    args = _arguments()
    # So that servers are stopped and folders removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        args.scratch.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=args.scratch, ignore_cleanup_errors=True) as folder:
            _Run(args, Path(folder)).run()
    except (ProcessError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/rivals/run stream", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds over all rivals; medians count (default 5)"
    )
    parser.add_argument("--seconds", type=float, default=5, help="of a measurement (default 5)")
    parser.add_argument(
        "--warmup", type=float, default=2, help="seconds before each that do not count (default 2)"
    )
    parser.add_argument(
        "--rate", type=int, default=50_000, help="records a second, for latency (default 50000)"
    )
    parser.add_argument("--only", default="*", help="cases, such as 'kafka.*' or '*.latency'")
    parser.add_argument(
        "--tapedb", type=Path, default=_HERE / "../../target/release/tapedb", help="the binary"
    )
    parser.add_argument("--cache", type=Path, default=_CACHE, help=f"folder for rivals (default {_CACHE})")
    parser.add_argument(
        "--scratch",
        type=Path,
        default=_HERE / ".scratch",
        help="folder to work in; what is made there is removed",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of tables")
    return parser.parse_args()


class _Run:
    """All rounds of one invocation."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self._args = args
        self._folder = folder
        self._rivals = rivals(args.cache.absolute())
        self._ours = Ours(args.tapedb)
        self._report = Report("rivals-stream")
        self._our_report = Report("stream")
        self._our_machine = ""

    def run(self) -> None:
        _note("installing")
        for rival in self._rivals:
            rival.install()
        missing = self._ours.missing()
        if missing:
            _note(missing)
        machine, before = Machine(), self._round_trip_ns()
        for number in range(self._args.rounds):
            _note(f"round {number + 1} of {self._args.rounds}")
            self._round()
        found = self._report.rows(machine.line((before, self._round_trip_ns())))
        self._print(found, self._our_report.rows(self._our_machine))

    def _round(self) -> None:
        """Every rival in turn, then TapeDB, so that what the machine does meanwhile meets them all."""
        for rival in self._rivals:
            whats = [(use, what) for use in rival.cases for what in _whats(use)]
            wanted = [(use, what) for use, what in whats if self._is_wanted(case(rival.key, use.key, what))]
            if wanted:
                self._serve(rival, wanted)
        for row in self._ours.measure() if self._is_wanted("tapedb") else []:
            self._our_report.add(row.case, row.metric, row.unit, row.value)
            self._our_machine = row.machine

    def _is_wanted(self, name: str) -> bool:
        return fnmatch.fnmatch(name, self._args.only)

    def _serve(self, rival: Rival, wanted: list[tuple[Case, str]]) -> None:
        with (
            TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as data,
            rival.serve(Path(data)) as url,
            client(rival.program(), self._folder / "client.log") as program,
        ):
            _note(f"  {rival.key}: warming up")
            self._ask(program, *wanted[0], url, rival.rehearsal_seconds)
            for use, what in wanted:
                # What the one before has written is not to be in the way.
                os.sync()
                name = case(rival.key, use.key, what)
                _note(f"  {name}")
                self._add(name, self._ask(program, use, what, url, self._args.seconds))

    def _ask(self, program: Client, use: Case, what: str, url: str, seconds: float) -> dict[str, Any]:
        args, (work, _, pairs) = self._args, what.partition(".")
        settings = {
            **use.settings,
            "url": url,
            "warmup": str(args.warmup),
            "seconds": str(seconds),
            "rate": str(args.rate),
            "pairs": pairs or "1",
        }
        words = [f"{key}={value}" for key, value in settings.items()]
        work = "throughput" if work == "live" else work
        return program.ask([work, *words], args.warmup + seconds + _GRACE_SECONDS)

    def _add(self, name: str, found: dict[str, Any]) -> None:
        if "seconds" in found:
            self._report.add(name, "rate", "records/s", found["messages"] / found["seconds"])
            return
        for percentile in PERCENTILES:
            self._report.add(name, percentile, "ns", found[percentile])

    def _round_trip_ns(self) -> float:
        rival = next(rival for rival in self._rivals if isinstance(rival, JetStream))
        with client(rival.program(), self._folder / "client.log") as program:
            found: float = program.ask(["round-trip"], _GRACE_SECONDS)["nanoseconds"]
        return found

    def _print(self, found: list[Row], ours: list[Row]) -> None:
        if self._args.json:
            print("\n".join(row.json() for row in [*found, *ours]))
            return
        if not found:
            raise ProcessError(f"no case matches --only {self._args.only!r}")
        print(f"{found[0].machine}; {self._args.rounds} rounds\n")
        print(throughput_table(self._rivals, [*found, *ours]))
        print(latency_table(self._rivals, [*found, *ours], self._args.rate))
        if ours:
            print(f"TapeDB: {ours[0].machine}; {ours[0].n} runs")


def _whats(use: Case) -> list[str]:
    """What is measured of a use."""
    live = [f"live.{pairs}" for pairs in PAIRS] if use.measures_throughput else []
    return [*live, "latency"] if use.measures_latency else live


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
