"""`bench/rivals/run market`: order books beside those of hftbacktest, and Databento's decoder, by the program
`market-rivals`, whose options these are; with `--archive`, stored books beside those of tickvault."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if "--archive" in sys.argv:
    from . import archive

    sys.argv.remove("--archive")
    archive.main()
    sys.exit()
manifest = ["--manifest-path", HERE / "Cargo.toml"]
subprocess.run(["cargo", "build", "--release", "--quiet", *manifest], check=True)
sys.exit(subprocess.run([HERE / "target" / "release" / "market-rivals", *sys.argv[1:]]).returncode)
