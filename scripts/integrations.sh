#!/usr/bin/env bash
# Runs the tests with the real frameworks, each in a virtual environment of its own, one after another. When started as root, they
# run as an ordinary user too. Everything is in a copy of the tree that is removed after that; one framework takes up to 500 MB.
#   scripts/integrations.sh [NAME]... [-- PYTEST-ARGUMENT...]      without a name: all
set -euo pipefail
# the module of stockade.integrations, whose tests are tests/integrations/test_MODULE.py; its extra; what else the tests need
frameworks=(
    "inspect_ai inspect"
    "deepagents deepagents langchain-tests"
    "deepagents deepagents langchain-tests deepagents==0.6.12"  # the last that langchain-tests 1.1.9 agrees with in all
    "langchain langchain langchain-tests"
    "smolagents smolagents numpy pillow"
    "pydantic_ai pydantic-ai"
    "openai_agents openai-agents"
    "jupyter jupyter ipykernel nbclient"
    "mcp client,mcp,server"
)
chosen=()
while (($#)) && [[ $1 != -- ]]; do chosen+=("$1") && shift; done
shift $(($# > 0))
known=("${frameworks[@]%% *}")
for name in "${chosen[@]}"; do
    [[ " ${known[*]} " == *" $name "* ]] || { echo "no framework is called $name; there are: ${known[*]}" >&2 && exit 2; }
done
uid=65534
place=$(mktemp -d /tmp/stockade-test.XXXXXX)
trap 'rm -rf "$place"' EXIT
git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C "$place"
cd "$place"
environment=(env -i HOME="$place" PATH="$place/venv/bin:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 NPM_OF_TESTS="$place/npm")
for line in "${frameworks[@]}"; do
    read -r name extra needs <<< "$line"
    [[ ${#chosen[@]} == 0 || " ${chosen[*]} " == *" $name "* ]] || continue
    echo "== $name"
    /usr/bin/python3 -m venv --clear venv
    # shellcheck disable=SC2086 # several words
    venv/bin/pip install --quiet --disable-pip-version-check "$place/.[$extra]" pytest pytest-asyncio pytest-timeout mypy $needs >&2
    if [[ $name == mcp ]]; then # tools of the protocol, and the Node that they need; npm chooses versions that fit its own Node
        mkdir npm && echo '{}' >npm/package.json
        npm install --prefix npm --no-audit --no-fund --silent node@22 >&2
        PATH="$place/npm/node_modules/node/bin:$PATH" npm install --prefix npm --no-audit --no-fund --silent \
            @modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/inspector@2.12.0 >&2
    fi
    venv/bin/mypy -m "stockade.integrations.$name" # with the framework's own types
    check=(venv/bin/python -m pytest -q -c tests/integrations/pytest.ini --rootdir . --confcutdir tests/integrations)
    check+=("tests/integrations/test_$name.py" "$@")
    "${environment[@]}" "${check[@]}"
    if [[ $(id -u) == 0 ]]; then
        chown -R "$uid:$uid" "$place"
        setpriv --reuid "$uid" --regid "$uid" --clear-groups "${environment[@]}" "${check[@]}"
    fi
done
