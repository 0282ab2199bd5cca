#!/usr/bin/env bash
# Proves that the wheel alone serves a robot: builds it, installs it into empty environments, and runs
# the SDK's own tests there, away from the checkout.
#
#   Python 3.11   the lowest dependency versions that pyproject.toml allows
#   Python 3.12   the newest ones
#   Python 3.10   the lowest ones
# 3.10 and 3.12 are skipped, loudly, where there is no such Python.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly ROOT=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf 'bare check: %s\n' "$*"; }

# Prints a Python of that version, from PATH or from pyenv.
find_python() {
    local candidate
    for candidate in $(type -aP "python$1" || true) $(pyenv_python "$1"); do
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

pyenv_python() {
    command -v pyenv >/dev/null || return 0
    local version
    version=$(pyenv versions --bare 2>/dev/null | grep -E "^$1\.[0-9]+$" | tail -1) || return 0
    printf '%s/bin/python\n' "$(pyenv prefix "$version")"
}

check() {
    local version=$1 dependencies=$2 python venv
    if ! python=$(find_python "$version"); then
        say "SKIPPED on Python $version: not found"
        [[ $version != 3.11 ]]
        return
    fi
    venv=$work/venv-$version
    "$python" -m venv "$venv"
    local pip=("$venv/bin/python" -m pip install -qq --disable-pip-version-check)
    if [[ $dependencies == lowest ]]; then
        .venv/bin/python tests/tools/lowest_dependencies.py >"$work/lowest.txt"
        "${pip[@]}" "$work"/dist/*.whl -r "$work/lowest.txt" </dev/null
    else
        "${pip[@]}" "$work"/dist/*.whl </dev/null
    fi
    "$venv/bin/python" -m pip check --disable-pip-version-check >/dev/null
    say "Python $version, $dependencies dependencies:" \
        "$("$venv/bin/python" -m pip list --format freeze --disable-pip-version-check |
            grep -E '^(grpcio|numpy|opentelemetry-(api|sdk)|protobuf)==' | tr '\n' ' ')"
    (cd "$work/tests" && "$venv/bin/python" -I "$ROOT/tests/tools/check_bare_import.py")
    "${pip[@]}" 'pytest>=8.2,<10' 'pytest-timeout>=2.3,<3' 'hypothesis>=6.100,<7' </dev/null
    (cd "$work/tests" && "$venv/bin/python" -m pytest -q -p no:cacheprovider)
}

say "building the wheel"
.venv/bin/python -m build --wheel --outdir "$work/dist" . >"$work/build.log" 2>&1 || {
    cat "$work/build.log" >&2
    exit 1
}
say "$(basename "$work"/dist/*.whl): $(du -k "$work"/dist/*.whl | cut -f1) kB"

mkdir -p "$work/tests/tests/unit"
cp tests/conftest.py "$work/tests/tests/"
cp -r tests/unit/robot_sdk "$work/tests/tests/unit/"
[[ ! -d tests/contract ]] || cp -r tests/contract "$work/tests/tests/"
[[ ! -d tests/support ]] || cp -r tests/support "$work/tests/tests/"
.venv/bin/python tests/tools/bare_pytest_config.py >"$work/tests/pytest.ini"

check 3.11 lowest
check 3.12 newest
check 3.10 lowest
say "passed"
