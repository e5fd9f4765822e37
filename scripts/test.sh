#!/usr/bin/env bash
# Runs the whole suite with the given interpreter (see tests/twice.py for what may be tried again). As root, what depends on who asks runs a
# second time as an ordinary user, beside the rest of it, and firejail once more as one with an account: it serves nobody
# else. The conformance suite, most of which waits, runs beside that too.
set -euo pipefail
python=$1
shift
alone=(tests/escape tests/system)
kernel=(tests/contract "${alone[@]}")
rest=(tests/unit tests/property tests/docs tests/cli tests/examples tests/contract)
if (($#)) || [[ $(id -u) != 0 ]]; then
    exec "$python" -m tests.twice "$@"
fi

echo "== what touches the kernel, as root"
failed=0
"$python" -m tests.twice "${alone[@]}" || failed=1

as_user=$(dirname "$0")/as-user.sh
log=$(mktemp /tmp/stockade-test-user.XXXXXX)
trap 'rm -f "$log"' EXIT
set -m # a process group of its own, which can be ended as a whole, and does not ignore SIGINT
"$as_user" -m tests.twice "${kernel[@]}" >"$log" 2>&1 </dev/null &
user=$!
set +m
trap 'kill -- "-$user" 2>/dev/null || true; rm -f "$log"' EXIT
echo
echo "== the rest, as root (beside it, what touches the kernel as an ordinary user, uid 65534)"
"$python" -m tests.twice "${rest[@]}" || failed=1
echo
echo "== firejail, as an ordinary user with an account"
"$as_user" --account -m tests.twice -k "firejail or Firejail" "${kernel[@]}" || failed=1
wait "$user" || failed=1
echo
echo "== what touches the kernel, as an ordinary user"
cat "$log"
exit $failed
