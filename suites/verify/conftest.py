"""The fixture `spark` (fixtures/plugin.py) needs JAVA_HOME."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# The session uses the Java on PATH; harness.verify leaves JAVA_HOME to its caller.
if "JAVA_HOME" not in os.environ and (java := shutil.which("java")):
    os.environ["JAVA_HOME"] = str(Path(java).resolve().parent.parent)
