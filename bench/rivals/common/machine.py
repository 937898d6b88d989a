"""The machine line: what a figure was measured on, and how busy other processes kept it during the run."""

import os
import platform
from pathlib import Path


class Machine:
    """This machine; `line()` tells what others took of it since this was made."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]
        self._own = _own_seconds()
        self._busy, self._total = _machine_seconds()

    def line(self, round_trips_ns: tuple[float, float] | None = None) -> str:
        """One line, in the words of `tapedb bench`, with the load, and the cores' round trips if any."""
        cores, kernel = os.cpu_count(), platform.release().split("-")[0]
        return (
            f"{cores} cores {_processor()}, {_memory_gib()} GiB, {platform.system().lower()} {kernel}; "
            f"{_trips(*round_trips_ns) if round_trips_ns else ''}"
            f"load {self._load:.2f} before, {os.getloadavg()[0]:.2f} after; "
            f"others took {self._others():.0%} of the cores"
        )

    def _others(self) -> float:
        """The part of all cores' time that other processes had; of children that were waited for, none."""
        busy, total = _machine_seconds()
        own = _own_seconds() - self._own
        return max(0.0, busy - self._busy - own) / max(total - self._total, 1e-9)


def _trips(before: float, after: float) -> str:
    return f"cross-core round trip {before:.0f} ns before, {after:.0f} ns after; "


def _own_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _machine_seconds() -> tuple[float, float]:
    """Busy and all processor time of all cores since the machine started."""
    with Path("/proc/stat").open(encoding="ascii") as lines:
        ticks = [int(word) for word in next(lines).split()[1:9]]
    idle = ticks[3] + ticks[4]
    second = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - idle) / second, sum(ticks) / second


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory_gib() -> int:
    kib = int(Path("/proc/meminfo").read_text(encoding="ascii").split()[1])
    return -(-kib // (1 << 20))
