#!/bin/sh
# Exits with 0 if a pod is ready, or is not ready or not there.
#   ready POD    not-ready POD
set -eu

ready() {
    kubectl get pod "$1" --ignore-not-found \
        --output 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -qx True
}

case $1 in
ready) ready "$2" ;;
not-ready) ! ready "$2" ;;
*)
    echo "kubectl.sh: unknown command $1" >&2
    exit 2
    ;;
esac
