#!/bin/bash
# For vm/guest-costs: see measure-costs.py. Then one server with one client, so few that the host takes nothing away.
# Environment: BIN.
python3 "${0%.sh}.py"
N=1 COUNT=10 POLICIES="default soft-domain" bash "${0%/*}/measure-policies.sh"
