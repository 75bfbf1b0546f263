"""Entry point of the console script. The exit codes hold from here on.

It imports nothing but modules of Python and of ours that need no library. All others are imported while signals are
handled and errors are caught: a library that is broken, or a machine without the memory to load one, must not end in 1,
which is the code of FAIL.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from harness.model.exits import Exit

# Exit.HARNESS and Exit.INTERRUPTED, which may not be imported yet when they are needed.
_HARNESS = 3
_INTERRUPTED = 130
_AUDIT = "audit"
_COMPLETION = "_DURABILITY_COMPLETE"  # a shell asks for completions, which needs all commands


def main() -> NoReturn:
    """Runs the command that the process was started with, and ends the process with its exit code."""
    try:
        from harness.commands.afterwards import with_work_afterwards
        from harness.commands.exit_codes import guarded, open_streams

        open_streams()
        sys.exit(with_work_afterwards(lambda: int(guarded(_run))))
    except KeyboardInterrupt:  # in the few milliseconds before `guarded` handles signals
        if sys.stderr is not None:
            sys.stderr.write("durability: interrupted; nothing was started\n")
        sys.exit(_INTERRUPTED)
    except Exception:
        # Memory ran out where the error was reported. Even SystemExit may need more, and 1 would mean FAIL.
        os._exit(_HARNESS)


def _run() -> Exit:
    from harness.commands.exit_codes import Terminated
    from harness.model.errors import HarnessFailure
    from harness.model.exits import Exit

    arguments = sys.argv[1:]
    is_auditor = arguments[:1] == [_AUDIT] and arguments[1:2] != [] and arguments[1].startswith("-")
    try:
        if arguments[:1] == [_AUDIT] and _COMPLETION not in os.environ:
            # It runs for weeks in little memory, so the libraries of the other commands stay out.
            from harness.kafka.messages_only import import_messages_only

            import_messages_only()
            from harness.commands.audit import run_audit as run_command

            del arguments[0]
        else:
            from harness.commands.cli import run_command
    except MemoryError:
        raise
    except (Terminated, KeyboardInterrupt):
        if not is_auditor:
            raise
        return Exit.PASS  # a signal is how an auditor ends
    except Exception as broken:  # a broken library may raise anything
        text = next(iter(str(broken).strip().splitlines()), "")
        raise HarnessFailure(
            f"its libraries cannot be imported ({type(broken).__name__}: {text}); install it in a new environment"
        ) from broken
    return run_command(arguments)


if __name__ == "__main__":
    main()
