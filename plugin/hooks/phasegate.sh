#!/bin/sh
# Finds the program, and lets it answer the hook. It is in this plugin where the plugin was packaged with it, otherwise on
# PATH or where it is usually installed: a client that was not started from a terminal may have a shorter PATH.
root=$(dirname "$0")/..
for program in "$root/bin/phasegate" "$(command -v phasegate)" "$HOME/.local/bin/phasegate" "$HOME/.cargo/bin/phasegate"; do
  [ ! -x "$program" ] || exec "$program" "$@"
done
# Nobody is held for want of the program, and the person hears of it once in a session. Of a compaction an empty object
# would be taken for instructions.
case ${2:-} in
  session-start) echo '{"systemMessage":"phasegate: the plugin cannot find the program phasegate, so nothing is gated in this session. Install it, or put its folder on PATH, and start a new session."}' ;;
  pre-compact) ;;
  *) echo '{}' ;;
esac
