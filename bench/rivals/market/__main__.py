"""Builds and runs `market-rivals`: order books of TapeDB beside those of hftbacktest, and Databento's decoder. Options are those of the program."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
subprocess.run(["cargo", "build", "--release", "--quiet", "--manifest-path", os.path.join(HERE, "Cargo.toml")], check=True)
sys.exit(subprocess.run([os.path.join(HERE, "target", "release", "market-rivals"), *sys.argv[1:]]).returncode)
