# Reads what it is told, writes the review, and gives a verdict as Claude Code does.
cat > /dev/null
case "$PHASEGATE_REVIEW" in
  *task-1-review-1.md) verdict=FAIL finding='1. greeting.sh:1: without a name it greets nobody.' ;;
  *) verdict=PASS finding='Read all of it and ran it: nothing to report.' ;;
esac
printf '# Review by %s\n\n%s\n' "$PHASEGATE_MODEL" "$finding" > "$PHASEGATE_REVIEW"
printf '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"","total_cost_usd":0,"structured_output":{"verdict":"%s"}}\n' "$verdict"
