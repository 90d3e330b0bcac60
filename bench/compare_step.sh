#!/usr/bin/env bash
# The same GPT-2 124M step here and in PyTorch, in turn, so that a busy machine hurts both; prints both medians and their
# ratio.   bench/compare_step.sh [sequence=64] [rounds=3] [installed|tuned]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sequence=${1:-64}
rounds=${2:-3}
mode=${3:-tuned}
bench=build/release/bin/bench_step
[ -x "$bench" ] || { echo "error: $bench is missing; run scripts/test.sh first" >&2; exit 1; }

field() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p" | tail -n 1; }
median() { sort -g | awk '{x[NR] = $1} END {print x[int((NR + 1) / 2)]}'; }
ours=() theirs=()
for _ in $(seq "$rounds"); do
  ours+=("$("$bench" --seq "$sequence" --steps 2 --json | field tokens_per_second)")
  theirs+=("$(bash bench/peer/run.sh "$mode" --sequence "$sequence" --steps 2 --warmup 1 | field tokens_per_second)")
  echo "megatron-host ${ours[-1]}  PyTorch ($mode) ${theirs[-1]} tokens/s"
done
a=$(printf '%s\n' "${ours[@]}" | median)
b=$(printf '%s\n' "${theirs[@]}" | median)
awk -v a="$a" -v b="$b" -v s="$sequence" -v m="$mode" \
  'BEGIN {printf "sequence %d: megatron-host %.1f, PyTorch (%s) %.1f tokens/s, ratio %.2f\n", s, a, m, b, a / b}'
