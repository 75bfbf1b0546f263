"""Files of a folder of Allure results that concern all results: categories, environment, executor."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Final

from harness.evidence.manifest import MANIFEST, read_manifest
from harness.model.errors import BadEvidence
from reports.allure.case import (
    BROKEN,
    DOUBTED,
    FAILED,
    LOST,
    NO_VERDICT,
    NOT_RUN,
    OTHER,
    PASSED,
    PERMITTED,
    SKIPPED,
)
from reports.review.loaded import Loaded
from reports.review.page import facts_of
from reports.terminal import clean


def _category(name: str, status: str, *begins: str) -> dict[str, object]:
    """Results with this status and a message that begins with one of these texts. Allure compares the whole message."""
    words = "|".join(re.escape(text).replace("\\ ", " ") for text in begins)
    return {"name": name, "matchedStatuses": [status], "messageRegex": f"(?s)({words}).*"}


CATEGORIES: Final = (
    _category("Records lost", FAILED, f"{LOST}:"),
    _category("Another promise broken", FAILED, f"{OTHER}:"),
    _category("Harness or machine", BROKEN, f"{NO_VERDICT}:", f"{DOUBTED} (machine)"),
    _category("Inconclusive", BROKEN, f"{DOUBTED} (release)", f"{DOUBTED} (scenario)"),
    _category("Permitted", PASSED, f"{PERMITTED}:"),
    _category("Not run", SKIPPED, f"{NOT_RUN}:"),
)


def surroundings(loaded: Loaded, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The contents of these files by name. environment: variables, by which the CI system is known."""
    files = {
        "categories.json": json.dumps(CATEGORIES, indent=1) + "\n",
        "environment.properties": "".join(f"{_key(name)}={_escaped(text)}\n" for name, text in _environment(loaded)),
    }
    if executor := executor_of(environment):
        files["executor.json"] = json.dumps(executor, indent=1) + "\n"
    return files


def _environment(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """The facts of the review page, and the versions of the clients."""
    yield from facts_of(loaded)
    yield "harness", metadata.version("kafka-durability")
    versions: dict[str, str] = {}
    for bundle in loaded.bundles.values():
        try:
            known = read_manifest(bundle).versions if (bundle / MANIFEST).is_file() else None
        except BadEvidence:
            known = None
        if isinstance(known, dict):
            versions |= {str(name): str(value) for name, value in known.items()}
    yield from sorted(versions.items())


def _key(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _escaped(text: str) -> str:
    """A value of a Java properties file: ASCII on one line."""
    shown = clean(text).replace("\\", "\\\\")
    units = shown.encode("utf-16-be", "replace")
    pairs = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in pairs)


def executor_of(environment: Mapping[str, str]) -> dict[str, object] | None:
    """The content of executor.json in GitHub Actions, GitLab CI or Jenkins; None elsewhere."""
    get = environment.get
    if get("GITHUB_ACTIONS"):
        repository = f"{get('GITHUB_SERVER_URL', '')}/{get('GITHUB_REPOSITORY', '')}"
        name, build, order = (
            "GitHub Actions",
            f"{repository}/actions/runs/{get('GITHUB_RUN_ID', '')}",
            "GITHUB_RUN_NUMBER",
        )
        known = _executor("github", name, build, get(order), f"{get('GITHUB_WORKFLOW', '')} #{get(order, '')}")
    elif get("GITLAB_CI"):
        title = f"{get('CI_JOB_NAME', '')} #{get('CI_PIPELINE_IID', '')}"
        build = get("CI_JOB_URL") or get("CI_PIPELINE_URL") or ""
        known = _executor("gitlab", "GitLab CI", build, get("CI_PIPELINE_IID"), title)
    elif get("JENKINS_URL"):
        title = f"{get('JOB_NAME', '')} #{get('BUILD_NUMBER', '')}"
        known = _executor("jenkins", "Jenkins", get("BUILD_URL", ""), get("BUILD_NUMBER"), title)
    else:
        return None
    return {key: value for key, value in known.items() if value not in ("", None)}


def _executor(kind: str, name: str, build: str, order: str | None, title: str) -> dict[str, object]:
    """build: address of the run. Only web addresses become links."""
    address = clean(build) if build.startswith(("https://", "http://")) else ""
    number = int(order) if order and order.isdecimal() else None
    return {"type": kind, "name": name, "buildName": clean(title), "buildUrl": address, "buildOrder": number}
