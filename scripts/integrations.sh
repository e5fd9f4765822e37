#!/usr/bin/env bash
# Runs the tests with the real frameworks in a virtual environment of their own (it takes 400 MB, in a copy of the tree that is
# removed after that). When started as root, they run as an ordinary user too.
set -euo pipefail
uid=65534
place=$(mktemp -d /tmp/stockade-test.XXXXXX)
trap 'rm -rf "$place"' EXIT
git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C "$place"
/usr/bin/python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --disable-pip-version-check "$place/.[inspect]" pytest pytest-asyncio pytest-timeout mypy >&2
cd "$place"
"$place/venv/bin/mypy" -m stockade.integrations.inspect_ai # with the framework's own types
check=(venv/bin/python -m pytest -q -c tests/integrations/pytest.ini --rootdir . --confcutdir tests/integrations tests/integrations "$@")
environment=(env -i HOME="$place" PATH="$place/venv/bin:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1)
"${environment[@]}" "${check[@]}"
if [[ $(id -u) == 0 ]]; then
    chown -R "$uid:$uid" "$place"
    setpriv --reuid "$uid" --regid "$uid" --clear-groups "${environment[@]}" "${check[@]}"
fi
