# /// attack
# guarantee = "environment"
# summary = "Looks for the host's name and for what the caller was started with."
# reference = "uname(2), proc(5)"
# success = "the command line of a process of the host is read"
# stage = ["victim"]
# refusal = { process = "says Permission denied", default = "errno" }
# ///

grep -aqs "$ATTACK_MARKER-victim" /proc/[0-9]*/cmdline && exit 42
[ "$(cat /proc/sys/kernel/hostname)" = stockade ] || exit 44
echo "REFUSED nothing found"
exit 43
