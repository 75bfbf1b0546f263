"""Decoding by the schema classes of kafka-python, in one thread at a time.

The first decoding of a kind of message compiles its decoder. Meanwhile the library replaces the data class of the
schema, which all threads share (`StructField.compiled_decode_from` in kafka-python 3). Two threads at once may leave a
decoder that raises TypeError for the rest of the process. Decoding is Python code: more threads gain nothing by it.
"""

from __future__ import annotations

import threading
from typing import Final

# Held while a message is decoded.
DECODING: Final = threading.Lock()
