#!/usr/bin/env bash
# Fetch the Python part of vLLM 0.17.1, the study's version, into a folder of its own:
#   tests/tools/fetch_study_engine.sh out/study-engine
# About 433 MB are downloaded, 100 MB stay. Nothing of it is installed or committed.
set -euo pipefail

folder=${1:?usage: fetch_study_engine.sh FOLDER}
python=$(cd "$(dirname "$0")/../.." && pwd)/.venv/bin/python

rm -rf "$folder"
mkdir -p "$folder/vllm"
download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
"$python" -m pip download --quiet --no-deps --dest "$download" vllm==0.17.1
"$python" -m zipfile -e "$download"/vllm-*.whl "$folder/vllm"
find "$folder/vllm" -name '*.so' -delete
# What it needs in other versions than the installed vLLM.
"$python" -m pip install --quiet --no-deps --target "$folder/dependencies" \
  diskcache gguf huggingface_hub==0.36.2 tokenizers==0.22.2 transformers==4.57.6
echo "vLLM 0.17.1 without its compiled parts: $folder"
