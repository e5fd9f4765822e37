#!/usr/bin/env bash
# Runs the whole suite with the given interpreter. As root it runs it a second time as an ordinary user,
# from a copy of the tree and with the system's Python, since root's own may lie where nobody else can read.
set -euo pipefail
python=$1
shift || true

"$python" -m pytest -q "$@"
[[ $(id -u) == 0 ]] || exit 0

echo
echo "== the same as an ordinary user (uid 65534)"
place=$(mktemp -d /tmp/stockade-test.XXXXXX)
trap 'rm -rf "$place"' EXIT
git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C "$place"
/usr/bin/python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --disable-pip-version-check "$place/.[dev,humaneval]"
chown -R 65534:65534 "$place"
cd "$place"
setpriv --reuid 65534 --regid 65534 --clear-groups \
    env -i HOME="$place" PATH="$place/venv/bin:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
    STOCKADE_MUST_RUN="${STOCKADE_MUST_RUN:-}" CI="${CI:-}" \
    "$place/venv/bin/python" -m pytest -q -p no:cacheprovider "$@"
