"""Builds images of brokers with the layouts of their makers, from the jars of a release and a base image with a JRE.

No registry is needed. Maven artifacts contain no scripts, so these are short replacements. They read the same variables
as the makers' scripts; where those fall back to defaults of their own, these fail and name the missing variable. The
entry points do the same as the makers', in the same order: they refuse the same input, write the settings of a node,
format storage with the release's classes, and exec the start script. They use only builtins of the shell, because the
base image has no programs. They set two variables, which show in a JVM's environment which scripts started it.
"""

from __future__ import annotations

import hashlib
import io
import json
import string
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from harness.kafka.release.image_layout import LAYOUTS, Layout
from harness.kafka.release.release import Release

USER: Final = "1000:1000"  # like appuser in the images of both makers
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
_ENTRY: Final = """\
#!/bin/sh
export ENTERED_BY="$0"
exec "$@"
"""
_BEGIN: Final = """\
#!/bin/sh
set -eu
export RUN_AS="$0 $$"
for setting in "$@"; do export "$setting"; done
refuse() { echo "$1"; exit 1; }
formatted() {  # $1: the output of a tool that failed
    case $1 in *[Aa]lready\\ formatted*) echo "$1" ;; *) refuse "$1" ;; esac
}
if [ "${KAFKA_PROCESS_ROLES-}" = controller ] && [ -n "${KAFKA_ADVERTISED_LISTENERS-}" ]; then
    refuse "KAFKA_ADVERTISED_LISTENERS is set, and a controller has none"
fi
"""
# Without CLUSTER_ID, the makers' script uses this fixed id.
_APACHE_RUN: Final = """\
CLUSTER_ID=${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}
export CLUSTER_ID
[ -w /opt/kafka/config/ ] || refuse "/opt/kafka/config/ cannot be written"
given=$KAFKA_JVM_PERFORMANCE_OPTS
export KAFKA_JVM_PERFORMANCE_OPTS="$given -XX:SharedArchiveFile=/opt/kafka/storage.jsa"
said=$(/opt/kafka/bin/kafka-run-class kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \\
    --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config 2>&1) || formatted "$said"
export KAFKA_JVM_PERFORMANCE_OPTS="$given -XX:SharedArchiveFile=/opt/kafka/kafka.jsa"
exec /opt/kafka/bin/kafka-server-start.sh /opt/kafka/config/server.properties
"""
_LETTERS: Final = " ".join(f"{letter}*) name=${{name}}{letter.lower()} ;;" for letter in string.ascii_uppercase)
_CONFLUENT_RUN: Final = f"""\
set_at_all() {{ eval "[ -n \\"\\${{$1+set}}\\" ]" || refuse "$1 is not set"; }}
set_at_all KAFKA_PROCESS_ROLES
set_at_all CLUSTER_ID
[ "$KAFKA_PROCESS_ROLES" = controller ] || set_at_all KAFKA_ADVERTISED_LISTENERS
[ -w /etc/kafka/ ] || refuse "/etc/kafka/ cannot be written"
export KAFKA_LOG_DIRS="${{KAFKA_LOG_DIRS:-/var/lib/kafka/data}}"
named() {{  # sets $name to the setting that belongs to the variable $1
    name= rest=${{1#KAFKA_}}
    while [ -n "$rest" ]; do
        case $rest in
            ___*) name=$name- rest=${{rest#__}} ;; __*) name=${{name}}_ rest=${{rest#_}} ;; _*) name=$name. ;;
            {_LETTERS}
            [0-9]*) name=$name${{rest%"${{rest#?}}"}} ;;
        esac
        rest=${{rest#?}}
    done
}}
export -p | while IFS= read -r line; do
    variable=${{line#export }} variable=${{variable%%=*}}
    case $variable in
        *_OPTS | KAFKA_VERSION | KAFKA_LOG4J_* | KAFKA_TOOLS_*) continue ;;
        KAFKA_*) named "$variable" && eval "value=\\$$variable" && printf '%s=%s\\n' "$name" "$value" ;;
    esac
done >/etc/kafka/kafka.properties
[ -w "${{KAFKA_DATA_DIRS:-/var/lib/kafka/data}}" ] || refuse "$KAFKA_DATA_DIRS cannot be written"
said=$(kafka-storage format --cluster-id="$CLUSTER_ID" -c /etc/kafka/kafka.properties 2>&1) || formatted "$said"
exec kafka-server-start /etc/kafka/kafka.properties
"""
_APACHE, _CONFLUENT = LAYOUTS
_RUNS: Final = {
    _APACHE.makers: {
        "/__cacert_entrypoint.sh": _ENTRY,
        _APACHE.run: _BEGIN + _APACHE_RUN,
        "/etc/kafka/docker/server.properties": "# no settings were given\n",
    },
    _CONFLUENT.makers: {_CONFLUENT.run: _BEGIN + _CONFLUENT_RUN},
}
# The same lines as in the makers' own Dockerfiles.
_LINES: Final = {
    _APACHE.makers: f"""\
VOLUME ["/etc/kafka/secrets", "/var/lib/kafka/data", "/mnt/shared/config"]
ENTRYPOINT ["/__cacert_entrypoint.sh"]
CMD ["{_APACHE.run}"]
""",
    _CONFLUENT.makers: f"""\
ENV COMPONENT=kafka KAFKA_ADVERTISED_LISTENERS= CLUSTER_ID= PATH=/usr/bin:$PATH
VOLUME ["/var/lib/kafka/data", "/etc/kafka/secrets"]
CMD ["{_CONFLUENT.run}"]
""",
}
_OTHER_ENTRY: Final = """\
ENTRYPOINT ["/entry-that-must-not-run"]
CMD ["/etc/run-that-must-not-run"]
"""
_DOCKERFILE: Final = """\
FROM {base}
COPY --chown={user} content/ /
USER {user}
{lines}"""


def build(
    client: Any, reference: str, base: str, layout: Layout, release: Release, scratch: Path, *, entry: bool = True
) -> None:
    """Builds the image `reference` on the image `base`, with the release in that layout.

    entry: with the makers' entry point. Without it, the image has only the makers' jars and start scripts, and an entry
    point that must not run.
    """
    run_class = str(PurePosixPath(layout.start).parent / "kafka-run-class")
    scripts = {
        run_class: _RUN_CLASS.format(jars=layout.jars),
        layout.start: _START.format(run_class=run_class),
        layout.storage: _STORAGE.format(run_class=run_class),
        **(_RUNS[layout.makers] if entry else {}),
    }
    lines = _LINES[layout.makers] if entry else _OTHER_ENTRY
    context = scratch / "context.tar"
    places = (*scripts, *(f"{place}/x" for place in (layout.jars, *layout.folders)))
    folders = {folder for path in places for folder in PurePosixPath(path).parents}
    with tarfile.open(context, "w") as tar:
        for folder in sorted(folders):
            _add_folder(tar, f"content{folder}")
        _add(tar, "Dockerfile", _DOCKERFILE.format(base=base, user=USER, lines=lines).encode(), 0o644)
        for path, text in scripts.items():
            _add(tar, f"content{path}", text.encode(), 0o755)
        for jar in release.classpath:
            _add(tar, f"content{layout.jars}/{jar.name}", jar.read_bytes(), 0o644)
    with context.open("rb") as stream:
        client.images.build(
            fileobj=stream, custom_context=True, tag=reference, rm=True, forcerm=True, network_mode="none", timeout=200
        )


def load_foreign(client: Any, reference: str, architecture: str) -> None:
    """Loads an image of one empty file that claims to be for `architecture`, in the format of `docker save`."""
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
