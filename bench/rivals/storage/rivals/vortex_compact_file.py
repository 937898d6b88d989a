"""A Vortex file of the writer that prefers small files to fast ones."""

import vortex

from .vortex_file import VortexFile

RIVAL = VortexFile(vortex.io.VortexWriteOptions.compact())
