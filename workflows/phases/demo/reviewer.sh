# A reviewer: the second phase is rejected once, and the reviewers of the third crash once.
cat > /dev/null
case "$PHASEGATE_AGENT" in
  reviewer-7) "$PHASEGATE" phases verdict --verdict rejected --findings '[{"type": "blocker", "severity": "critical", "message": "The greeting has no test", "file": "greeting.txt", "line": 1}]' ;;
  reviewer-14 | reviewer-15 | reviewer-16 | replacement-*) exit 70 ;;
  *) "$PHASEGATE" phases verdict --verdict approved --summary "as asked for" ;;
esac
