"""Decoding by the schema classes of kafka-python, in one thread at a time.

The first decoding of a kind of message compiles its decoder. Meanwhile the library replaces the data class of the
schema, which all threads share (`StructField.compiled_decode_from` in kafka-python 3). Two threads at once may leave a
decoder that raises TypeError for the rest of the process. Decoding is Python code: more threads gain nothing by it.
"""

from __future__ import annotations

import threading
from typing import Final

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_message import ApiMessage

# Held while a message is decoded.
DECODING: Final = threading.Lock()


def answer_class(asked: RequestHeader) -> type[ApiMessage] | None:
    """The class of the answers to a request; None if kafka-python knows none.

    The first question for a version makes a class, and the library keeps a weak reference to the last one that was
    made. Two threads at once make two, one of them is dropped, and if the reference is to that one, each later question
    in this process raises ReferenceError.
    """
    with DECODING:
        kind: type[ApiMessage] | None = asked.get_response_class()
        return kind
