"""Writes the nodes of a cluster, the same way on every backend."""

from __future__ import annotations

from harness.clusters.archive import class_archive
from harness.clusters.format import new_uuid
from harness.clusters.nodes import NodeFiles, Site, write_node
from harness.kafka.cache import Cache, Progress


def write_nodes(site: Site, cache: Cache, progress: Progress) -> dict[int, NodeFiles]:
    """Everything that each node needs to start, with a fast start where one can be prepared."""
    archive = class_archive(site, cache, progress)
    flags = (f"-XX:SharedArchiveFile={archive}",) if archive else ()
    cluster_id = new_uuid()
    return {node: write_node(node, site, cluster_id=cluster_id, extra_flags=flags) for node in site.plan.nodes}
