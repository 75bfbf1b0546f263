"""One Spark session for all of these; the fixture `spark` comes from fixtures/plugin.py."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# The session starts on whatever Java is at hand; harness.verify itself leaves that to its caller.
if "JAVA_HOME" not in os.environ and (java := shutil.which("java")):
    os.environ["JAVA_HOME"] = str(Path(java).resolve().parent.parent)
