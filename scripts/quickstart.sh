#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs what is missing, builds the host and its plugins, makes a
# corpus from the package dict-jargon, trains examples/gpt-quickstart.toml on it and generates a sample.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run=runs/quickstart
host=build/release/bin/megatron-host
say() { printf '\n== %s\n' "$*"; }

say "packages"
bash scripts/install-dependencies.sh dict-jargon

say "build (a few minutes the first time)"
cmake --preset release -DBUILD_TESTING=OFF -DMEGATRON_BENCH=OFF >/dev/null
cmake --build --preset release --parallel "$(nproc)" -- --quiet
"$host" list-plugins

say "corpus: the Jargon File, tokenized byte by byte"
mkdir -p "$run/data"
zcat /usr/share/dictd/jargon.dict.dz >"$run/data/jargon.txt"
"$host" preprocess --input "$run/data/jargon.txt" --text paragraph --append-eod --tokenizer byte \
  --output-prefix "$run/data/jargon" --overwrite

say "training: examples/gpt-quickstart.toml (about two minutes on two cores)"
"$host" run examples/gpt-quickstart.toml --overwrite

say "a sample of what it learned"
"$host" generate "$run" --prompt "The hacker" --tokens 300 --top-p 0.9 --seed 1

say "files"
echo "manifest    examples/gpt-quickstart.toml"
echo "metrics     $run/metrics.jsonl"
echo "checkpoint  $(ls -d "$run"/checkpoints/iter_* | tail -n 1)"
echo "host        $host"
