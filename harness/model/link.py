"""The ways in which a directed link between two nodes, or a client and a node, can be broken."""

from __future__ import annotations

from typing import Literal

CutMode = Literal["silent", "refusing"]
Break = Literal["cut", "slow", "diverted"]
# From the side that opened the connection: what it sends, and the answers that it gets.
Direction = Literal["both", "requests", "answers"]
