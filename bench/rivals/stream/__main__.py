"""`bench/rivals/run stream`: the command line, and the rounds."""

import argparse
import fnmatch
import os
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common.command import CACHE, add_options, run
from common.machine import Machine
from common.process import Client, ProcessError, client
from common.report import Report, Row

from .ours import KEY as TAPEDB
from .ours import Ours
from .rivals import Case, Rival, rivals
from .rivals.jetstream import JetStream
from .table import PAIRS, PERCENTILES, case, latency_table, throughput_table

# A case that fails is measured again, with a server that was just started; so often in a round.
_ATTEMPTS = 2
# Rounds after the last one, of the cases that were measured less often than others.
_EXTRA_ROUNDS = 2
# How much longer than it measures a program may take, to start, to read what is left, and to stop.
_GRACE_SECONDS = 120


def main() -> None:
    """Runs the benchmark; failures are one line and exit code 1."""
    run(_arguments(), lambda args, folder: _Run(args, folder).run(), ProcessError)


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
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"folder for rivals (default {CACHE})")
    add_options(parser)
    return parser.parse_args()


class _Run:
    """All rounds of one invocation."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self._args = args
        self._folder = folder
        self._left_out: list[str] = []
        self._rivals = [rival for rival in rivals(args.cache.absolute()) if self._is_there(rival)]
        self._ours = Ours(args.tapedb)
        # How often each case was measured, and why it failed last.
        self._measured: Counter[str] = Counter()
        self._failed: dict[str, str] = {}
        # The case that is being measured; None while a server starts.
        self._current: str | None = None
        self._report = Report("rivals-stream")
        self._our_report = Report("stream")
        self._our_machine = ""

    def run(self) -> None:
        if missing := self._ours.missing():
            self._leave_out(missing)
        machine, before, rounds = Machine(), self._round_trip_ns(), self._args.rounds
        for number in range(1, rounds + 1):
            _note(f"round {number} of {rounds}")
            self._round(number)
        for _ in range(_EXTRA_ROUNDS):
            if self._short():
                _note("once more, what was measured less often")
                self._round(rounds)
        after = self._round_trip_ns()
        found = self._report.rows(machine.line((before, after) if before and after else None))
        self._print(found, self._our_report.rows(self._our_machine))

    def _is_there(self, rival: Rival) -> bool:
        """Installs it if it is wanted; one that cannot be is left out, and the others are measured."""
        if not self._names(rival):
            return False
        _note(f"installing {rival.key}")
        try:
            rival.install()
        except (ProcessError, OSError) as error:
            self._leave_out(f"{rival.key} left out, as it could not be installed: {error}")
            return False
        return True

    def _leave_out(self, why: str) -> None:
        self._left_out.append(why)
        _note(f"!!! {why}")

    def _names(self, rival: Rival) -> dict[str, tuple[Case, str]]:
        """The cases that are wanted of a rival."""
        named = {case(rival.key, use.key, what): (use, what) for use in rival.cases for what in _whats(use)}
        return {name: found for name, found in named.items() if self._is_wanted(name)}

    def _short(self) -> list[str]:
        """The cases that were not measured in each round."""
        names = [name for rival in self._rivals for name in self._names(rival)]
        names += [TAPEDB] if self._is_wanted(TAPEDB) and self._ours.benches() else []
        return [name for name in names if self._measured[name] < self._args.rounds]

    def _round(self, rounds: int) -> None:
        """Every rival in turn, then TapeDB, so that other load on the machine affects them all.

        Of each the cases that were measured less often than so many rounds.
        """
        for rival in self._rivals:
            self._cases(rival, rounds)
        for _ in range(_ATTEMPTS):
            if self._is_wanted(TAPEDB) and self._measured[TAPEDB] < rounds:
                self._measure_ours()

    def _cases(self, rival: Rival, rounds: int) -> None:
        """Of one rival. One that fails is tried again behind the others, with a server of its own."""
        failures: Counter[str] = Counter()
        while True:
            left = [name for name in self._names(rival) if self._measured[name] < rounds]
            left = [name for name in left if failures[name] < _ATTEMPTS]
            left.sort(key=lambda name: failures[name])
            if not left:
                return
            try:
                self._serve(rival, left)
            except (ProcessError, OSError, KeyError) as error:
                # A server that does not start is a failure of all.
                for name in [self._current] if self._current else left:
                    failures[name] += 1
                    self._failed[name] = str(error)
                _note(f"!!! {error}")

    def _measure_ours(self) -> None:
        try:
            rows = self._ours.measure()
        except ProcessError as error:
            self._failed[TAPEDB] = str(error)
            _note(f"!!! {error}")
            return
        for row in rows:
            self._our_report.add(row.case, row.metric, row.unit, row.value)
            self._our_machine = row.machine
        self._measured[TAPEDB] += 1

    def _is_wanted(self, name: str) -> bool:
        return fnmatch.fnmatch(name, self._args.only)

    def _serve(self, rival: Rival, names: list[str]) -> None:
        """Measures cases, one after the other, with a server that is started for them."""
        wanted = self._names(rival)
        self._current = None
        with (
            TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as data,
            rival.serve(Path(data)) as url,
            client(rival.program(), self._folder / "client.log") as program,
        ):
            _note(f"  {rival.key}: warming up")
            self._current = names[0]
            self._ask(program, *wanted[names[0]], url, rival.rehearsal_seconds)
            for name in names:
                self._current = name
                # What the one before has written is not to be in the way.
                os.sync()
                _note(f"  {name}")
                self._add(name, self._ask(program, *wanted[name], url, self._args.seconds))
                self._measured[name] += 1

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
        if not found["messages"]:
            raise ProcessError(f"{name}: no record came")
        if "seconds" in found:
            self._report.add(name, "rate", "records/s", found["messages"] / found["seconds"])
            return
        for percentile, nanoseconds in [(percentile, found[percentile]) for percentile in PERCENTILES]:
            self._report.add(name, percentile, "ns", nanoseconds)

    def _round_trip_ns(self) -> float | None:
        """As the program in Rust measures it; None without that."""
        rival = next((rival for rival in self._rivals if isinstance(rival, JetStream)), None)
        if not rival:
            return None
        with client(rival.program(), self._folder / "client.log") as program:
            found: float = program.ask(["round-trip"], _GRACE_SECONDS)["nanoseconds"]
        return found

    def _print(self, found: list[Row], ours: list[Row]) -> None:
        for name in self._short():
            times = f"{self._measured[name]} of {self._args.rounds} times"
            self._leave_out(f"{name} was measured {times}: {self._failed.get(name, 'it was not tried')}")
        if self._args.json:
            print("\n".join(row.json() for row in [*found, *ours]))
            return
        if not found and not ours:
            raise ProcessError(f"nothing was measured with --only {self._args.only!r}")
        print(f"{(found or ours)[0].machine}; {self._args.rounds} rounds\n")
        print(throughput_table(self._rivals, [*found, *ours]))
        print(latency_table(self._rivals, [*found, *ours], self._args.rate))
        if ours:
            print(f"TapeDB: {ours[0].machine}; {ours[0].n} runs")
        if self._left_out:
            print("\nNot measured, or not each time:\n\n" + "\n".join(f"- {why}" for why in self._left_out))


def _whats(use: Case) -> list[str]:
    """What is measured of a use."""
    live = [f"live.{pairs}" for pairs in PAIRS] if use.measures_throughput else []
    return [*live, "latency"] if use.measures_latency else live


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
