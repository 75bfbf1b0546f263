"""The severity of an alarm of the auditor."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How bad an alarm is. The first is the worst."""

    LOSS = "loss"  # committed records are lost, or no reader gets them
    DANGER = "danger"  # records will be lost unless an operator acts, or at the next failure
    NOTICE = "notice"  # for information; nothing is lost by it
