#!/usr/bin/env bash
# Generates robot_sdk/api/v1 from protos/ with one pinned compiler, in an environment of its own.
#
#   generate_protos.sh           writes the checkout
#   generate_protos.sh --check   fails, with the difference, if the checkout is not up to date
#
# grpcio-tools 1.62.3 writes code that runs on protobuf 4.25 to 7: robots keep old environments, and
# generated code refuses to run on a protobuf older than its compiler, not on a newer one.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly VENV=.venv-protos
readonly PINS=('grpcio-tools==1.62.3' 'protobuf==4.25.9' 'grpcio==1.62.3' 'setuptools==79.0.1')

if [[ $("$VENV/bin/python" -m pip freeze --all 2>/dev/null || true) != *"grpcio-tools==1.62.3"* ]]; then
    echo "protos: creating $VENV with ${PINS[*]}"
    rm -rf "$VENV"
    .venv/bin/python -m venv "$VENV"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "${PINS[@]}" </dev/null
fi

generate() {
    "$VENV/bin/python" -W ignore -m grpc_tools.protoc -I protos \
        --python_out="$1" --pyi_out="$1" --grpc_python_out="$1" protos/robot_sdk/api/v1/*.proto
}

if [[ ${1:-} == --check ]]; then
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    generate "$fresh"
    if ! diff -r --exclude=__init__.py --exclude=__pycache__ robot_sdk/api/v1 "$fresh/robot_sdk/api/v1"; then
        echo "protos: robot_sdk/api/v1 is not what protos/ generates; run 'make protos' and commit it" >&2
        exit 1
    fi
    echo "protos: robot_sdk/api/v1 is up to date"
else
    find robot_sdk/api/v1 -name '*_pb2*' -delete
    generate .
    echo "protos: wrote robot_sdk/api/v1"
fi
