"""`bench/rivals/run topic`: the command line, and the rounds."""

import argparse
import fnmatch
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common.command import CACHE, add_options, run
from common.machine import Machine
from common.process import Client, ProcessError, client
from common.report import Report, Row

from . import kill
from .distance import DISTANCES, distance
from .ours import KEY, TITLE, Ours, round_trips_ns
from .rivals import Rival, rivals, rust
from .table import case, tables
from .works import PERCENTILES, WORKS, Work

# How much longer than it measures a program may take.
_GRACE_SECONDS = 60


def main() -> None:
    """Runs the benchmark; failures are one line and exit code 1."""
    run(_arguments(), lambda args, folder: _Run(args, folder).run(), ProcessError)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/rivals/run topic", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds over all rivals; medians count (default 5)"
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="of a measurement (default 1.5)")
    parser.add_argument(
        "--warmup", type=float, default=0.25, help="seconds before each that do not count (default 0.25)"
    )
    parser.add_argument("--only", default="*", help="cases, such as 'aeron-c.*' or '*.latency.40.*'")
    parser.add_argument(
        "--step", action="store_true", help="wait for a line on stdin before each round, once all is warm"
    )
    parser.add_argument(
        "--kill", action="store_true", help="instead: what a killed subscriber does to its publisher"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"folder for rivals (default {CACHE})")
    add_options(parser)
    return parser.parse_args()


class _Run:
    """All rounds of one invocation."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self._args = args
        self._folder = folder
        self._cache = args.cache.absolute()
        self._ours = Ours(args.tapedb)
        self._left_out: list[str] = []
        self._rivals = [rival for rival in rivals(self._cache) if self._is_there(rival)]
        self._programs: dict[str, Client] = {}
        self._probe: Client
        self._report = Report("rivals-topic")
        self._round_trips: list[float] = []

    def run(self) -> None:
        if not self._rivals:
            raise ProcessError("no rival is to be measured, or could be installed")
        if self._args.kill:
            return self._kill()
        if missing := self._ours.missing():
            self._leave_out(missing)
        machine = Machine()
        with ExitStack() as stack:
            rust.build_probe(self._cache)
            self._probe = stack.enter_context(client(rust.probe(self._cache), self._folder / "probe.log"))
            for rival in self._rivals:
                log = self._folder / f"{rival.key}.log"
                self._programs[rival.key] = stack.enter_context(client(rival.program(), log))
            self._rehearse()
            for number in range(self._args.rounds):
                self._round(number + 1)
        self._print(self._report.rows(self._machine_line(machine)))
        return None

    def _is_there(self, rival: Rival) -> bool:
        """Installs it if it is wanted; one that cannot be is left out."""
        if not any(self._is_wanted(rival.key, work) for work in WORKS):
            return False
        _note(f"installing {rival.title}")
        try:
            rival.install()
        except (ProcessError, OSError) as error:
            self._leave_out(f"{rival.title} left out, as it could not be installed: {error}")
            return False
        return True

    def _leave_out(self, why: str) -> None:
        self._left_out.append(why)
        _note(f"!!! {why}")

    def _is_wanted(self, key: str, work: Work) -> bool:
        return fnmatch.fnmatch(f"{key}.{work.key}", self._args.only)

    def _kill(self) -> None:
        print(f"{Machine().line()}\n\n{kill.HEAD}")
        for rival in self._rivals:
            found = kill.stall(rival, self._folder)
            print(kill.line(rival.title, found["stall_ms"], found["hangs"]), flush=True)
        if missing := self._ours.missing():
            self._leave_out(missing)
            return
        print(kill.line(TITLE, self._ours.stall_ms(self._args.seconds), hangs=False))

    def _rehearse(self) -> None:
        for rival in self._rivals:
            _note(f"warming up {rival.title}")
            for work in WORKS:
                if self._is_wanted(rival.key, work):
                    self._ask(rival, work, rival.rehearsal_seconds)

    def _round(self, number: int) -> None:
        """Every rival and TapeDB in turn at each work, so that other load on the machine affects them all."""
        if self._args.step:
            _note(f"round {number} of {self._args.rounds}: waiting for a line")
            sys.stdin.readline()
        before = self._round_trip_ns()
        for work in WORKS:
            before = self._work(work, before)
        _note(f"round {number} of {self._args.rounds} ended: {self._trips()}")

    def _work(self, work: Work, before: float) -> float:
        """Measures all, each between two probes, of which the last is returned."""
        for rival in self._rivals:
            if self._is_wanted(rival.key, work):
                found = self._ask(rival, work, self._args.seconds)
                before, started = self._round_trip_ns(), before
                self._add_rival(rival, work, (started, before), found)
        if self._is_wanted(KEY, work):
            for row in self._ours.measure(work, self._args.seconds):
                self._add(KEY, work, round_trips_ns(row), (row.metric, row.unit, row.value))
            before = self._round_trip_ns()
        return before

    def _ask(self, rival: Rival, work: Work, seconds: float) -> dict[str, Any]:
        settings = {**work.settings, "warmup": self._args.warmup, "seconds": seconds}
        words = [f"{key}={value}" for key, value in settings.items()]
        longest = self._args.warmup + seconds + _GRACE_SECONDS
        return self._programs[rival.key].ask([work.command, *words], longest)

    def _add_rival(self, rival: Rival, work: Work, trips: tuple[float, float], found: dict[str, Any]) -> None:
        if work.is_latency:
            for percentile in PERCENTILES:
                self._add(rival.key, work, trips, (percentile, "ns", found[percentile]))
        else:
            rate = found["messages"] / found["seconds"]
            self._add(rival.key, work, trips, ("rate", "records/s", rate))

    def _add(
        self, key: str, work: Work, trips: tuple[float, float], figure: tuple[str, str, float]
    ) -> None:
        """Keeps a figure with those of the same distance; none if the cores moved during the run."""
        where = distance(*trips)
        if where:
            self._report.add(case(key, work, where), *figure)

    def _round_trip_ns(self) -> float:
        """Of the cores that publisher and subscriber have."""
        found: float = self._probe.ask(["round-trip"], _GRACE_SECONDS)["nanoseconds"]
        self._round_trips.append(found)
        return found

    def _trips(self) -> str:
        return f"cross-core round trip {min(self._round_trips):.0f} to {max(self._round_trips):.0f} ns"

    def _machine_line(self, machine: Machine) -> str:
        return f"{machine.line()}; {self._trips()}; {self._args.rounds} rounds"

    def _print(self, rows: list[Row]) -> None:
        if self._args.json:
            print("\n".join(row.json() for row in rows))
            return
        if not rows:
            raise ProcessError("the cores moved during every measurement; try again")
        print(f"{rows[0].machine}\n")
        media = [*((rival.title, rival.key) for rival in self._rivals), (TITLE, KEY)]
        for where in DISTANCES:
            if table := tables(media, rows, where):
                print(f"Cores {where}:\n\n{table}")
        print("\n".join(self._left_out))


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
