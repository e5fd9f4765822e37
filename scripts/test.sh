#!/usr/bin/env bash
# Runs the whole suite with the given interpreter (what fails once more, alone); as root a second time as an ordinary user.
set -euo pipefail
python=$1
shift
"$python" -m tests.twice "$@"
if [[ $(id -u) == 0 ]]; then
    echo
    echo "== the same as an ordinary user (uid 65534)"
    "$(dirname "$0")/as-user.sh" -m tests.twice "$@"
    echo
    echo "== firejail, as an ordinary user with an account"
    "$(dirname "$0")/as-user.sh" --account -m tests.twice -k "firejail or Firejail" tests/contract tests/system tests/escape
fi
