"""What the commands of all benchmarks share: some options, the folder to work in, and how failures end."""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

_HERE = Path(__file__).parent.parent
# Where rivals are installed that are not packages of Python.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tapedb-rivals"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that every benchmark has."""
    parser.add_argument(
        "--tapedb", type=Path, default=_HERE / "../../target/release/tapedb", help="the binary"
    )
    parser.add_argument(
        "--scratch",
        type=Path,
        default=_HERE / ".scratch",
        help="folder to work in; what is made there is removed",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of tables")


def run(
    args: argparse.Namespace,
    work: Callable[[argparse.Namespace, Path], None],
    *failures: type[Exception],
) -> None:
    """Does the work in a new folder below `--scratch`. Failures are one line and exit code 1."""
    # So that programs are stopped and folders removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        args.scratch.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=args.scratch, ignore_cleanup_errors=True) as folder:
            work(args, Path(folder))
    except (*failures, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
