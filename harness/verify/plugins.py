"""Notes and doubts about plugins: those that judged, and those that played the run and are missing now."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.documents.manifest import UsedPlugin
from harness.model.doubt_names import DoubtName
from harness.model.plugin import Plugin, active
from harness.model.verdict import Doubt
from harness.verify.engine.case import Case


def doubts(case: Case) -> Iterator[Doubt]:
    """A doubt for each check that the run was to be judged by and that this judge does not have."""
    known = {check for plugin in active() for check in plugin.checks}
    for played in case.manifest.plugins:
        for check in played.checks:
            if check not in known:
                yield Doubt(
                    DoubtName.CHECK_MISSING,
                    f"the run is to be judged by the check {check} of the plugin {played.name}, which is not here; "
                    "give its folder with --plugins",
                )


def notes(case: Case) -> Iterator[str]:
    """The plugins that judged with their checks, and how the plugins of the run differ from them."""
    for plugin in active():
        if plugin.checks:
            yield f"the plugin {plugin.name} judged, too, with {', '.join(plugin.checks)}"
    here = {plugin.name: plugin for plugin in active()}
    scenario = case.scenario.name
    for played in case.manifest.plugins:
        known = here.get(played.name)
        if known is None and scenario in played.scenarios:
            yield (
                f"the scenario {scenario} is of the plugin {played.name}, which is not here; all that a verdict "
                "needs of it is in the bundle"
            )
        elif known is not None and (changed := _changed(known, played)):
            yield f"the plugin {known.name} has changed since the run: {', '.join(changed)}"


def _changed(plugin: Plugin, played: UsedPlugin) -> list[str]:
    """Files that were added, removed or changed since the run."""
    paths = sorted({*plugin.files, *played.files})
    return [path for path in paths if plugin.files.get(path) != played.files.get(path)]
