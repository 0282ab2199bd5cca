#!/usr/bin/env bash
# Runs every script of tests/bench, one after the other, and leaves NAME.json for each in a folder.
#
#   run_benchmarks.sh OUT_FOLDER
#
# A script takes --json FILE and runs by itself. chunk_round_trip.py compares with openpi's client,
# which wants numpy below 2, so it has an environment of its own, where both sides run.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?usage: run_benchmarks.sh OUT_FOLDER}
mkdir -p "$out"

readonly BENCH_VENV=.venv-bench
readonly BENCH_STAMP=$BENCH_VENV/setup-stamp

make_bench_environment() {
    local wanted
    wanted=$(sha256sum <pyproject.toml)
    [[ -f $BENCH_STAMP && $(<"$BENCH_STAMP") == "$wanted" ]] && return
    echo "bench: creating $BENCH_VENV"
    rm -rf "$BENCH_VENV"
    .venv/bin/python -m venv "$BENCH_VENV"
    "$BENCH_VENV/bin/python" -m pip install -qq --disable-pip-version-check -e '.[server,bench]' </dev/null
    printf '%s' "$wanted" >"$BENCH_STAMP"
}

for script in tests/bench/*.py; do
    name=$(basename "$script" .py)
    [[ $name == _* ]] && continue
    python=.venv/bin/python
    if [[ $name == chunk_round_trip ]]; then
        make_bench_environment
        python=$BENCH_VENV/bin/python
    fi
    echo "bench: $name"
    "$python" "$script" --json "$out/$name.json"
done
echo "bench: results in $out"
