#!/usr/bin/env bash
# Runs `python ARGUMENTS` as an ordinary user, when started as root. It uses a copy of the tree and the system's Python, since
# root's own Python may be unreadable for others. The user is uid 65534; with --account as the first argument, it is a user
# with an account. The preparation takes half a minute.
set -euo pipefail
uid=65534
around=()
if [[ ${1:-} == --account ]]; then # firejail serves only users with an account, and never uid 65534
    shift
    uid=61616
    around=(unshare --mount --propagation private sh -c 'mount --bind passwd.test /etc/passwd && exec "$@"' sh)
fi
place=$(mktemp -d /tmp/stockade-test.XXXXXX)
root=$PWD
trap 'cat "$place/.second-tries.txt" >>"$root/.second-tries.txt" 2>/dev/null || true; rm -rf "$place"' EXIT
git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C "$place"
/usr/bin/python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --disable-pip-version-check "$place/.[dev,humaneval]" >&2
chown -R "$uid:$uid" "$place"
cd "$place"
{ cat /etc/passwd; echo "stockade-test:x:$uid:$uid::$place:/bin/sh"; } > passwd.test
"${around[@]}" setpriv --reuid "$uid" --regid "$uid" --clear-groups \
    env -i HOME="$place" PATH="$place/venv/bin:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
    STOCKADE_MUST_RUN="${STOCKADE_MUST_RUN:-}" STOCKADE_PASS="${STOCKADE_PASS:-}" STOCKADE_SOAK="${STOCKADE_SOAK:-200}" CI="${CI:-}" \
    "$place/venv/bin/python" "$@"
