#!/usr/bin/env bash
# Times the PyTorch peer. Installs nothing.
#
#   bench/peer/run.sh installed [options of torch_gpt2.py]   as a user finds it
#   bench/peer/run.sh tuned     [options of torch_gpt2.py]   the fastest settings that we know
#
# Needs (Debian 12):
#   apt install python3-torch                 both
#   apt install libopenblas0-openmp           tuned
# PYTHON chooses another interpreter, THREADS the number of threads (default: all processors).
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-/usr/bin/python3}
threads=${THREADS:-$(nproc)}

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

mode=${1:-}
[[ $mode == installed || $mode == tuned ]] || usage
shift

if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "run.sh: $python has no torch module; apt install python3-torch, or set PYTHON" >&2
  exit 1
fi

if [[ $mode == tuned ]]; then
  openblas=""
  for folder in /usr/lib/*/openblas-openmp; do
    [[ -e $folder/libblas.so.3 ]] && openblas=$folder
  done
  if [[ -z $openblas ]]; then
    echo "run.sh: the OpenMP build of OpenBLAS is missing; apt install libopenblas0-openmp" >&2
    exit 1
  fi
  # Debian's torch takes libblas.so.3, by default an OpenBLAS with own threads beside OpenMP's.
  export LD_LIBRARY_PATH="$openblas${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export OMP_NUM_THREADS=$threads
  # Binding suits OpenMP threads alone: OpenBLAS's own threads would all land on one processor.
  export OMP_PROC_BIND=true
  # Activations stay in the heap instead of being mapped and faulted in anew at each step.
  export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=1000000000
fi

exec "$python" "$here/torch_gpt2.py" --threads "$threads" "$@"
