# /// attack
# guarantee = "output"
# summary = "Floods both streams from several processes at a time."
# reference = "pipe(7)"
# success = "more than the limit is read by somebody"
# control = { success = "bytes stdout 1000000" }
# policy = { on_output = "kill" }
# refusal = { default = "limit output" }
# ///

for number in 1 2 3 4; do
    head -c 500000 /dev/zero &
    head -c 500000 /dev/zero >&2 &
done
wait
exit 42
