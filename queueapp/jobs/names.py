"""How kinds and operations may be called: one pattern each for whoever reads a name."""

from __future__ import annotations

import re

# The database's own check (``ck_jobs_kind``) asks for the same.
KIND = re.compile(r"[a-z][a-z0-9_.-]{0,99}", re.ASCII)
OPERATION = re.compile(r"[0-9a-f]{16}", re.ASCII)
