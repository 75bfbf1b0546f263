"""How a directed link between two nodes, or a client and a node, can be broken."""

from __future__ import annotations

from typing import Literal

CutMode = Literal["silent", "refusing"]
Break = Literal["cut", "slow", "diverted"]
# As who opened the connection sees it: what it sends, what it is sent back.
Direction = Literal["both", "requests", "answers"]
