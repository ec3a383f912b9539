# A worker: it leaves a file behind, and says so.
cat > /dev/null
"$PHASEGATE" phases progress --status working --message "at it"
echo "made by $PHASEGATE_AGENT" >> greeting.txt
"$PHASEGATE" phases progress --status completed --progress 100 --message "greeting.txt is written"
