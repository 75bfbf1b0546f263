"""Enums of words, each with its meaning: the same in code, files and pages."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Described(StrEnum):
    """Words with a `meaning`, one sentence each. A member is written as (word, meaning)."""

    meaning: str

    def __new__(cls, name: str, meaning: str = "") -> Self:
        word = str.__new__(cls, name)
        word._value_ = name
        word.meaning = meaning
        return word
