#!/bin/sh
# The commands of chaos_mesh.toml. NAME is that of an object of Chaos Mesh.
#   apply FILE NAME POD [POD] [LATENCY_MS JITTER_MS]    makes the object that FILE describes
#   delete KIND NAME                                    deletes it; one that is not there is no error
#   injected KIND NAME                                  exits with 0 when all of its pods have the fault
#   recovered KIND NAME POD                             exits with 0 when it is not there and the pod is ready
set -eu
folder=$(dirname "$0")
namespace=${DURABILITY_NAMESPACE:-kafka}

what=$1
shift
case $what in
apply)
    sed -e "s/__NAME__/durability-$2/" -e "s/__NAMESPACE__/$namespace/" -e "s/__POD__/$3/" -e "s/__PEER__/${4:-}/" \
        -e "s/__LATENCY_MS__/${5:-0}/" -e "s/__JITTER_MS__/${6:-0}/" "$folder/$1" | kubectl apply --filename -
    ;;
delete)
    kubectl delete "$1" "durability-$2" --namespace "$namespace" --ignore-not-found --wait=true
    ;;
injected)
    kubectl wait --for=condition=AllInjected "$1/durability-$2" --namespace "$namespace" --timeout=1s
    ;;
recovered)
    [ -z "$(kubectl get "$1" "durability-$2" --namespace "$namespace" --ignore-not-found --output name)" ]
    kubectl wait --for=condition=Ready "pod/$3" --namespace "$namespace" --timeout=1s
    ;;
*)
    echo "chaos_mesh.sh: unknown command $what" >&2
    exit 2
    ;;
esac
