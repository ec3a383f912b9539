#!/usr/bin/env bash
# What the gate answers in the phase `triage`, as a shell script would: no lock, no journal.
set -euo pipefail
payload=$(cat)
cwd=$(jq -r .cwd <<<"$payload")
state=$(find "$cwd/.phasegate/triage" -maxdepth 1 -name '*_triage.json' | head -n 1)
pending=$(jq '[.entries[] | select(.status == "pending")] | length' "$state")
if [ "$pending" -gt 0 ]; then
  jq -cn --arg reason "$pending entries are pending." '{decision: "block", reason: $reason}'
else
  echo '{}'
fi
