#!/usr/bin/env bash
# Fetch the Python part of vLLM 0.17.1, the study's version, into a folder of its own:
#   tests/tools/fetch_study_engine.sh out/study-engine
# About 433 MB are downloaded, 165 MB stay. Nothing of it is installed or committed. A folder that is
# complete already is left as it is; one that is not is replaced once the new one works.
set -euo pipefail

folder=${1:?usage: fetch_study_engine.sh FOLDER}
repository=$(cd "$(dirname "$0")/../.." && pwd)
python=$repository/.venv/bin/python
mkdir -p "$(dirname "$folder")"
folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")

# Prints the version that a folder gives; fails if it gives none.
version_of() {
    (cd "$repository" && "$python" - "$1" 2>/dev/null) <<'PYTHON'
import sys
from pathlib import Path

from server.capacity.engine import EngineSettings, SchedulerOnlyEngine, study_version
from server.core.capacity import KvPool

library = study_version.load(Path(sys.argv[1]))
SchedulerOnlyEngine(EngineSettings(KvPool(100, 784, 3), retention_tokens=None), library)
print(library.version)
PYTHON
}

# It gets its name when all of it is there.
if [[ -f $folder/vllm/vllm-0.17.1.dist-info/METADATA && -d $folder/dependencies ]]; then
    echo "vLLM 0.17.1 is there already: $folder"
    exit
fi
if [[ -e $folder && ! -d $folder/vllm && -n $(ls -A "$folder") ]]; then
    echo "error: $folder holds something else; name a folder that is empty or new" >&2
    exit 2
fi

part=$folder.part
download=$(mktemp -d)
trap 'rm -rf "$download" "$part"' EXIT
rm -rf "$part"
mkdir -p "$part/vllm"
"$python" -m pip download --quiet --no-deps --dest "$download" vllm==0.17.1
"$python" -m zipfile -e "$download"/vllm-*.whl "$part/vllm"
find "$part/vllm" -name '*.so' -delete
# What it needs in other versions than the installed vLLM.
"$python" -m pip install --quiet --no-deps --target "$part/dependencies" \
  diskcache==5.6.3 gguf==0.19.0 huggingface_hub==0.36.2 tokenizers==0.22.2 transformers==4.57.6
if ! found=$(version_of "$part"); then
    echo "error: what was fetched does not load; is vLLM's environment complete (make setup)?" >&2
    exit 1
fi
rm -rf "$folder"
mv "$part" "$folder"
echo "vLLM $found without its compiled parts: $folder"
