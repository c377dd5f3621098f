#!/bin/bash
# For vm/sim-check. One server with one client under soft-domain: how much of a turn, of each, is still to do when its
# first answer or request wakes the other. A line of figures that begins with @@; see measure-turns.py.
# Environment: BIN, SETTLE and COUNT = seconds before counting and while.
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
start -P valkey-server
servers 1 1
clients 1 1
sleep "${SETTLE:-5}"
nice -n -20 python3 "${0%.sh}.py" "${COUNT:-5}" "${SERVERS[1]}" "${CLIENTS[0]}"
end_clients
end_servers
stop
exit "${code:?}"
