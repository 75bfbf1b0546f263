"""A tox runner for environments that share one `env_dir`.

tox 4 rebuilds an environment if another environment used its folder last, and PySpark alone is a download of 456 MB.
With `runner = shared` tox ignores the name of the environment; it still compares Python, dependencies and package.
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
    """The record of an environment folder, without the name of the environment."""

    def compare(
        self, value: Any, section: str, sub_section: str | None = None
    ) -> AbstractContextManager[tuple[bool, Any | None]]:
        if section == ToxEnv.__name__:
            value = {**value, "name": "shared"}
        return super().compare(value, section, sub_section)


class SharedRunner(VirtualEnvRunner):
    """tox's own runner, with `SharedInfo` as its record."""

    @staticmethod
    def id() -> str:
        return "shared"

    @property
    def cache(self) -> Info:
        return SharedInfo(self.env_dir)


@impl
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    register.add_run_env(SharedRunner)
