"""The address of the run that a CI system is in."""

from __future__ import annotations

import os
from urllib.parse import urlsplit


def run_url() -> str | None:
    """The page of this run in GitHub Actions, GitLab or Jenkins; None outside of them."""
    env = os.environ
    server, repository, run = (env.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    github = f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None
    return next((url for url in (github, env.get("CI_JOB_URL"), env.get("BUILD_URL")) if url and _usable(url)), None)


def _usable(url: str) -> bool:
    """Whether a text is an address that may be put into a link as it is."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not set(url) & set("<>\"' \t\r\n\\`|")
