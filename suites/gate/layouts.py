"""Builds images of brokers as their makers lay them out, of a release's own jars and the base image with a JRE.

No registry is asked. The scripts are stand-ins of a few lines, because the jars of a repository bring none: they take
what the makers' scripts take, and where those would fall back on settings of their own these say what was forgotten.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from harness.kafka.layout import Layout
from harness.kafka.release import Release

USER: Final = "1000:1000"  # as appuser of both makers
_RUN_CLASS: Final = """\
#!/bin/sh
: "${{KAFKA_HEAP_OPTS:?}}" "${{KAFKA_JVM_PERFORMANCE_OPTS:?}}" "${{KAFKA_JMX_OPTS:?}}" "${{LOG_DIR:?}}"
CLASSPATH=
for jar in {jars}/*.jar; do CLASSPATH=$CLASSPATH:$jar; done
exec "${{JAVA_HOME:+$JAVA_HOME/bin/}}java" $KAFKA_HEAP_OPTS $KAFKA_JVM_PERFORMANCE_OPTS $KAFKA_JMX_OPTS \\
    -Dkafka.logs.dir=$LOG_DIR $KAFKA_LOG4J_OPTS -cp "${{CLASSPATH#:}}" $KAFKA_OPTS "$@"
"""
_START: Final = """\
#!/bin/sh
: "${{KAFKA_LOG4J_OPTS:?}}" "${{EXTRA_ARGS:?}}"
exec {run_class} kafka.Kafka "$@"
"""
_STORAGE: Final = """\
#!/bin/sh
exec {run_class} kafka.tools.StorageTool "$@"
"""
_DOCKERFILE: Final = """\
FROM {base}
COPY --chown={user} content/ /
VOLUME ["/var/lib/kafka/data", "/etc/kafka/secrets"]
USER {user}
ENTRYPOINT ["/entry-that-must-not-run"]
CMD ["/etc/run-that-must-not-run"]
"""


def build(client: Any, reference: str, base: str, layout: Layout, release: Release, scratch: Path) -> None:
    """The image `reference` with the release laid out so, on the image `base`."""
    run_class = str(PurePosixPath(layout.start).parent / "kafka-run-class")
    scripts = {
        run_class: _RUN_CLASS.format(jars=layout.jars),
        layout.start: _START.format(run_class=run_class),
        layout.storage: _STORAGE.format(run_class=run_class),
    }
    context = scratch / "context.tar"
    folders = {folder for path in (*scripts, f"{layout.jars}/x.jar") for folder in PurePosixPath(path).parents}
    with tarfile.open(context, "w") as tar:
        for folder in sorted(folders):
            _add_folder(tar, f"content{folder}")
        _add(tar, "Dockerfile", _DOCKERFILE.format(base=base, user=USER).encode(), 0o644)
        for path, text in scripts.items():
            _add(tar, f"content{path}", text.encode(), 0o755)
        for jar in release.classpath:
            _add(tar, f"content{layout.jars}/{jar.name}", jar.read_bytes(), 0o644)
    with context.open("rb") as stream:
        client.images.build(
            fileobj=stream, custom_context=True, tag=reference, rm=True, forcerm=True, network_mode="none", timeout=200
        )


def load_foreign(client: Any, reference: str, architecture: str) -> None:
    """An image of one empty file that says it is for `architecture`, in the format of `docker save`."""
    layer = _tar({"kafka": b""})
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Cmd": ["/kafka"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    parts = {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
    client.images.load(_tar({**parts, "layer.tar": layer}))


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            _add(tar, name, content, 0o644)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    member = tarfile.TarInfo(name.rstrip("/"))
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(member)
