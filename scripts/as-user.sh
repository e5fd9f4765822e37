#!/usr/bin/env bash
# As root: runs `python ARGUMENTS` as an ordinary user (uid 65534), in a copy of the tree and with the system's Python,
# since root's own may lie where nobody else can read. Takes half a minute to prepare.
set -euo pipefail
place=$(mktemp -d /tmp/stockade-test.XXXXXX)
trap 'rm -rf "$place"' EXIT
git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C "$place"
/usr/bin/python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --disable-pip-version-check "$place/.[dev,humaneval]" >&2
chown -R 65534:65534 "$place"
cd "$place"
setpriv --reuid 65534 --regid 65534 --clear-groups \
    env -i HOME="$place" PATH="$place/venv/bin:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
    STOCKADE_MUST_RUN="${STOCKADE_MUST_RUN:-}" STOCKADE_SOAK="${STOCKADE_SOAK:-200}" CI="${CI:-}" \
    "$place/venv/bin/python" "$@"
