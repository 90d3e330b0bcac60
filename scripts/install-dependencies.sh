#!/usr/bin/env bash
# Installs the Debian packages that building needs and that are missing. Further arguments name more packages.
# Does nothing, and needs no root, when all are there.
set -euo pipefail

packages=(
  ccache cmake g++ ninja-build
  libboost-dev            # Boost.DLL: plugin loading
  libcli11-dev            # command line
  libfmt-dev libspdlog-dev  # text and logging
  libgmock-dev libgtest-dev # tests
  libhwy-dev              # SIMD with run-time dispatch
  libpcre2-dev            # tests of the GPT-2 pre-tokenizer
  libgloo-dev             # bench/comm: a contestant
  libopenmpi-dev openmpi-bin # the plugin comm/mpi, its tests, bench/comm
  libtomlplusplus-dev     # manifests
  libucx-dev              # the plugin comm/ucx
  libutf8proc-dev         # Unicode classes
  libxxhash-dev           # checksums
  nlohmann-json3-dev      # JSON
  "$@"
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null; then
    as_root=(sudo)
  else
    echo "error: packages are missing: ${missing[*]}" >&2
    echo "  installing them needs root, and there is no sudo" >&2
    echo "  fix: as root, run: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get -o Acquire::Retries=3 update -q >/dev/null
"${as_root[@]}" apt-get -o Acquire::Retries=3 install -y -q --no-install-recommends "${missing[@]}" >/dev/null
