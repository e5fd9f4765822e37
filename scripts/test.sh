#!/usr/bin/env bash
# Runs the whole suite with the given interpreter (what fails once more, alone); as root, what depends on who asks a second
# time as an ordinary user, and firejail a third time as one with an account, since it serves nobody else.
set -euo pipefail
python=$1
shift
"$python" -m tests.twice "$@"
if [[ $(id -u) == 0 ]]; then
    echo
    echo "== the same as an ordinary user (uid 65534): whatever touches the kernel"
    "$(dirname "$0")/as-user.sh" -m tests.twice tests/contract tests/escape tests/system "$@"
    echo
    echo "== firejail, as an ordinary user with an account"
    "$(dirname "$0")/as-user.sh" --account -m tests.twice -k "firejail or Firejail" tests/contract tests/system
fi
