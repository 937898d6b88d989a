"""How far apart the two cores sat, by the round trip of a word between them.

Virtual cores move: the same program takes a multiple of the time when its threads sit far apart. So each measurement stands
between two probes, and is compared with others only where all of them agree.
"""

# What is below is near; probes of cores that are near, or far, lie well away from it.
_NEAR_NS_MAX = 300

NEAR = "near"
FAR = "far"
DISTANCES = (NEAR, FAR)


def distance(before_ns: float, after_ns: float) -> str | None:
    """Where the cores sat during a measurement; none if they moved."""
    before, after = _of(before_ns), _of(after_ns)
    return before if before == after else None


def _of(round_trip_ns: float) -> str:
    return NEAR if round_trip_ns < _NEAR_NS_MAX else FAR
