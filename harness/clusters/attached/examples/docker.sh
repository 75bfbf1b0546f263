#!/bin/sh
# The commands of docker.toml that are more than one command.
#   is STATUS NAME               exits with 0 if the container has that status
#   unpause NAME                 continues a container, and is no error where it is not paused
#   cut SRC DST MODE DIRECTION   cuts the connections that SRC opens to DST, by rules in the network of DST
#   join SRC DST                 removes these rules
#   is-cut, is-joined SRC DST    exits with 0 if there are such rules, or none
# A container that starts again has a new network without rules, so it is joined.
set -eu
ports=${DURABILITY_PORTS:-9092,9093,9094}

status() { docker inspect --format '{{.State.Status}}' "$1"; }

address() { docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}' "$1" | cut -d' ' -f1; }

# Runs iptables in the network of a container.
filter() {
    of=$1
    shift
    pid=$(docker inspect --format '{{.State.Pid}}' "$of")
    nsenter --target "$pid" --net iptables -w "$@"
}

rules() {
    [ "$(status "$2")" = running ] || return 0
    filter "$2" -S | grep -e "--comment durability-$1-$2" || true
}

what=$1
case $what in
is)
    [ "$(status "$3")" = "$2" ]
    ;;
unpause)
    [ "$(status "$2")" != paused ] || docker unpause "$2"
    ;;
cut)
    peer=$(address "$2")
    mark="-m comment --comment durability-$2-$3"
    end=DROP
    [ "$4" = silent ] || end="REJECT --reject-with tcp-reset"
    # $mark and $end are several words each.
    [ "$5" = answers ] || filter "$3" -I INPUT -s "$peer" -p tcp -m multiport --dports "$ports" $mark -j $end
    [ "$5" = requests ] || filter "$3" -I OUTPUT -d "$peer" -p tcp -m multiport --sports "$ports" $mark -j $end
    ;;
join)
    rules "$2" "$3" | sed 's/^-A/-D/' | while read -r rule; do
        filter "$3" $rule
    done
    ;;
is-cut)
    [ -n "$(rules "$2" "$3")" ]
    ;;
is-joined)
    [ -z "$(rules "$2" "$3")" ]
    ;;
*)
    echo "docker.sh: unknown command $what" >&2
    exit 2
    ;;
esac
