test "$(sh greeting.sh Ada)" = "Hello, Ada" || { echo "greeting.sh Ada said: $(sh greeting.sh Ada)"; exit 1; }
