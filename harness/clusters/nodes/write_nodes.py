"""Writes the nodes of a cluster, the same way on every backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.clusters.base import START, TESTED
from harness.clusters.nodes.node_files import NodeFiles, Site, write_node
from harness.clusters.processes.class_data_archive import class_archive
from harness.kafka.release.cache import Cache, Progress
from harness.kafka.storage.uuids import new_uuid


def with_fast_start(site: Site, cache: Cache, progress: Progress) -> Site:
    """The same with a class-data archive of its release, where one can be prepared."""
    archive = class_archive(site, cache, progress)
    return replace(site, fast_start=(f"-XX:SharedArchiveFile={archive}",)) if archive else site


def write_nodes(sites: Mapping[str, Site]) -> dict[int, NodeFiles]:
    """Everything that each node needs to start on the release that the cluster begins on."""
    site, cluster_id = sites.get(START, sites[TESTED]), new_uuid()
    return {node: write_node(node, site, cluster_id=cluster_id) for node in site.plan.nodes}
