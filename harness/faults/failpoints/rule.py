"""The rule of Byteman that a failpoint installs in a node: which passages of the point it acts on, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from harness.faults.failpoints.code_point import IO_EXCEPTION, CodePoint, Site
from harness.kafka.release.class_files import Method
from harness.model.place import Place

Act = Literal["kill", "delay", "io_error"]
# The exit code of a node that a rule ends. No other end of a broker has it: they have 0, 1, 3, 134, 137 or 143.
HALTED: Final = 97
# Nodes append to this log by themselves twice a second, so the first passage would nearly always be there.
_METADATA_LOG: Final = "__cluster_metadata-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """name: unlike that of any other rule that the node ever had, because the agent counts passages under it.

    skip: so many passages are let through first; then the rule acts on `count` of them. of: only passages with the log
    of this partition count; None = with any log but that of the metadata.
    """

    name: str
    point: CodePoint
    site: Site
    method: Method
    act: Act
    delay_ms: int = 0
    skip: int = 0
    count: int = 1
    of: Place | None = None

    @property
    def text(self) -> str:
        """The rule as the agent takes it. Conditions are asked in their order, so what does not fit is not counted."""
        conditions = [
            *([self.point.only] if self.point.only else []),
            *([self._log] if self.point.log else []),
            f'incrementCounter("{self.name}") > {self.skip}',
            f'incrementCounter("{self.name} acted") <= {self.count}',
        ]
        return "\n".join(
            [
                f"RULE {self.name}",
                f"CLASS {self.site.owner}",
                f"METHOD {self.method.signature}",
                f"AT {self.point.where}",
                f"IF {' AND '.join(conditions)}",
                f'DO traceln("{self.trace}"); {self._action}',
                "ENDRULE",
            ]
        )

    @property
    def trace(self) -> str:
        """The line that the node prints each time the rule acts, before it does."""
        return f"{self.name} acts: {self.act}"

    @property
    def _log(self) -> str:
        if self.of is None:
            return f'(NOT {self.point.log}.startsWith("{_METADATA_LOG}"))'
        return f'{self.point.log}.equals("{self.of[0]}-{self.of[1]}")'

    @property
    def _action(self) -> str:
        actions = {
            "kill": f"killJVM({HALTED})",
            "delay": f"delay({self.delay_ms})",
            "io_error": f'throw new {IO_EXCEPTION}("{self.name}: injected error of the disk")',
        }
        return actions[self.act]
