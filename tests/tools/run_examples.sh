#!/usr/bin/env bash
# Runs every example as a user would, each within a time limit. Each runs on a CPU without arguments.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly LIMIT_S=${EXAMPLE_LIMIT_S:-300}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

shopt -s nullglob
examples=(examples/[0-9]*.py)
((${#examples[@]} > 0)) || {
    echo "examples: none found in examples/" >&2
    exit 1
}
for example in "${examples[@]}"; do
    started=$SECONDS
    if ! timeout --kill-after=10 "$LIMIT_S" .venv/bin/python "$example" >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        echo "examples: $example FAILED after $((SECONDS - started)) s (limit $LIMIT_S s)" >&2
        exit 1
    fi
    echo "examples: $example passed in $((SECONDS - started)) s"
done
