"""Environments that name one `env_dir` share it.

tox 4 builds an environment anew whenever another name used its folder last, and PySpark alone is a 456 MB download.
With `runner = shared` the name no longer counts; Python, dependencies and package still do.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tox.plugin import impl
from tox.tox_env.api import ToxEnv
from tox.tox_env.info import Info
from tox.tox_env.python.virtual_env.runner import VirtualEnvRunner
from tox.tox_env.register import ToxEnvRegister


class SharedInfo(Info):
    """What tox remembers of an environment folder, the name left out."""

    def compare(
        self, value: Any, section: str, sub_section: str | None = None
    ) -> AbstractContextManager[tuple[bool, Any | None]]:
        if section == ToxEnv.__name__:
            value = {**value, "name": "shared"}
        return super().compare(value, section, sub_section)


class SharedRunner(VirtualEnvRunner):
    """tox's own runner, with the memory above."""

    @staticmethod
    def id() -> str:
        return "shared"

    @property
    def cache(self) -> Info:
        return SharedInfo(self.env_dir)


@impl
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    register.add_run_env(SharedRunner)
