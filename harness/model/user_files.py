"""Files that a user names: read only where they are regular files of a sane size.

A device such as /dev/zero never ends, a named pipe waits for a writer, and a file that is far too large takes the
memory of the machine. All three are refused before the first byte is kept.
"""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Final

from harness.model.errors import BadInput

MIB: Final = 1 << 20
TEXT_MAX: Final = MIB  # a scenario, a file of settings
STORE_MAX: Final = 16 * MIB  # certificates and keys
DOCUMENT_MAX: Final = 256 * MIB  # a document of the evidence; snapshots of thousands of partitions take some 20 MiB


def read_bytes(path: Path, most: int = TEXT_MAX) -> bytes:
    """The content of a regular file of at most `most` bytes.

    OSError for anything else; its `strerror` says why in words that fit into a sentence of the caller.
    """
    _refuse_special(path, path.stat().st_mode)
    # Without O_NONBLOCK, a pipe that has just taken the place of the file would be waited for.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        _refuse_special(path, status.st_mode)
        if status.st_size > most:
            raise _too_large(path, f"{_size(status.st_size)} large", most)
        content = file.read(most + 1)  # files of /proc say that they are empty, whatever is in them
    if len(content) > most:
        raise _too_large(path, f"larger than {_size(most)}", most)
    return content


def read_text(path: Path, most: int = TEXT_MAX, encoding: str = "utf-8") -> str:
    """The same as text, with the line ends of Unix. UnicodeDecodeError where it is none."""
    return read_bytes(path, most).decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def read_toml(file: Path, where: str) -> dict[str, object]:
    """The content of a TOML file. BadInput, in one sentence that begins with `where`, if it is none."""
    try:
        return tomllib.loads(read_text(file))
    except (OSError, UnicodeDecodeError) as refused:
        raise BadInput(f"{where}: cannot be read ({reason(refused)}); give a TOML file") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not valid TOML: {error}") from None


def reason(error: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be read, without the path, which the sentence around it names."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text, at byte {error.start + 1}"
    return error.strerror or str(error)


def _refuse_special(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and not a regular file", str(path))


def _too_large(path: Path, found: str, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it is {found}, and at most {_size(most)} are read", str(path))


def _size(size: int) -> str:
    return f"{size / MIB:,.0f} MiB" if size >= MIB else f"{size:,} bytes"
