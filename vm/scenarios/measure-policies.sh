#!/bin/bash
# shellcheck disable=SC2086,SC2119 # numbers need no quotes
# For vm/sim-check. One workload under one policy after the other; of each a line of figures that begins with @@.
# Environment: BIN, POLICIES ("default" = the kernel's own scheduler), N = valkey servers with a client each (0: nine
#              burners instead), SETTLE and COUNT = seconds before counting and while, LLC_CPUS, NODE_CPUS (vm/run).
# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
N=${N:-4} SETTLE=${SETTLE:-5} COUNT=${COUNT:-15}
count() { nice -n -20 python3 "${0%.sh}.py" $SETTLE $COUNT $LLC_CPUS $NODE_CPUS "$@"; }

for policy in ${POLICIES:-default soft-domain}; do
    LOG=/tmp/$policy.log SERVERS=() CLIENTS=()
    [ $policy = default ] || start --policy $policy -P valkey-server
    own=$([ $policy = default ] || dispatcher)
    if [ $N = 0 ]; then
        burners 9
        gate
        count "$policy" "$own" "${BURNERS[*]}" ""
        end_burners
    else
        servers 1 $N
        clients 1 $N
        count "$policy" "$own" "${SERVERS[*]}" "${CLIENTS[*]}"
        [ $policy != soft-domain ] || say "@@ {\"homes\": [$(placed | cut -d' ' -f2 | paste -sd,)]}"
        end_clients
        end_servers
    fi
    [ $policy = default ] && continue
    stop
    [ "$code" = 0 ] || { say "FAILED  $policy ended with exit code $code"; tail -20 $LOG; failed=1; }
    grep -E '^ *(own cost|kicks|dispatched|by kernel|undone)' $LOG
done
exit $failed
