"""What a benchmark measured: medians with their spread, as the JSON lines of `tapedb bench --json`."""

import json
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Row:
    """One measured figure: the median of `n` runs, with the smallest and the largest."""

    bench: str
    case: str
    metric: str
    unit: str
    value: float
    min: float
    max: float
    n: int
    machine: str

    @classmethod
    def parse(cls, line: str) -> "Row":
        """A row out of its JSON line; unknown keys are left out."""
        known: dict[str, Any] = json.loads(line)
        return cls(**{name: known[name] for name in cls.__dataclass_fields__})

    def json(self) -> str:
        """The row as one line."""
        return json.dumps(self.__dict__)


@dataclass
class Report:
    """Values of several runs by case, in the order in which the cases first came."""

    bench: str
    _values: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)

    def add(self, case: str, metric: str, unit: str, value: float) -> None:
        """Adds one run's value."""
        self._values.setdefault((case, metric, unit), []).append(value)

    def rows(self, machine: str) -> list[Row]:
        """A row for each case."""
        return [
            Row(self.bench, *case, median(values), min(values), max(values), len(values), machine)
            for case, values in self._values.items()
        ]
