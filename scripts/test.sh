#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests.
#   scripts/test.sh [--preset release|dev|tsan]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=$2; shift 2 ;;
    *) echo "usage: scripts/test.sh [--preset release|dev|tsan]" >&2; exit 2 ;;
  esac
done

bash scripts/install-dependencies.sh
cmake --preset "$preset" -DBUILD_TESTING=ON >/dev/null
cmake --build --preset "$preset" --parallel "$(nproc)" -- --quiet

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
ctest --preset "$preset" --parallel "$(nproc)" >"$log" 2>&1 || status=$?
grep -vE '^ *Start +[0-9]+:|Passed +[0-9.]+ sec$' "$log" || true
skipped=$(grep -c '\*\*\*Skipped' "$log" || true)
echo "skipped tests: $skipped"
exit "$status"
