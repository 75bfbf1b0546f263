"""Reads a folder of Allure results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

Document = dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Read:
    """One result. attachments: with their `content`, as bytes."""

    content: Document
    attachments: list[Document]

    @property
    def scenario(self) -> str:
        return str(self.content["fullName"]).rpartition("#")[2]

    @property
    def status(self) -> str:
        return str(self.content["status"])

    @property
    def message(self) -> str:
        return str(cast(Document, self.content.get("statusDetails", {})).get("message", ""))

    def pairs(self, key: str) -> list[tuple[str, str]]:
        """Labels or parameters, as name and value."""
        return [(str(one["name"]), str(one["value"])) for one in cast(list[Document], self.content.get(key, []))]

    def attached(self, name: str) -> bytes:
        """The content of the attachment with this name."""
        [found] = [one for one in self.attachments if one["name"] == name]
        return cast(bytes, found["content"])


def read_results(folder: Path) -> list[Read]:
    """All results of a folder, by scenario and start."""
    found = []
    for path in folder.glob("*-result.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        attachments = [
            one | {"content": (folder / one["source"]).read_bytes()} for one in content.get("attachments", [])
        ]
        found.append(Read(content=content, attachments=attachments))
    return sorted(found, key=lambda one: (one.scenario, cast(int, one.content.get("start", 0))))
