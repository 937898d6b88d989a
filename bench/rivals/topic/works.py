"""What is measured of every rival, and of TapeDB."""

from dataclasses import dataclass

# Records in a batch: of TapeDB's, and in a message of the others, where users pack them themselves. More would be two
# fragments to Aeron.
PACKED = 32


@dataclass(frozen=True)
class Work:
    """One measurement."""

    # In the names of figures, as in those of `tapedb bench topic`.
    key: str
    # In the tables.
    title: str
    # For the measuring programs.
    command: str
    settings: dict[str, int]

    @property
    def is_latency(self) -> bool:
        """Else it is throughput."""
        return self.command == "latency"


def _latency(byte_count: int, rate: int, short: str) -> Work:
    title = f"{byte_count} bytes, {rate:,}/s"
    return Work(f"latency.{byte_count}.{short}", title, "latency", {"bytes": byte_count, "rate": rate})


WORKS = (
    _latency(40, 50_000, "50k"),
    _latency(40, 1_000_000, "1m"),
    _latency(256, 50_000, "50k"),
    _latency(256, 1_000_000, "1m"),
    Work("throughput.40.single", "one by one", "throughput", {"packed": 1}),
    Work("throughput.40.batched", f"{PACKED} at a time", "throughput", {"packed": PACKED}),
)
PERCENTILES = ("p50", "p99", "p99.9", "max")
