"""Writes reference tensors and tables with a record of how they were made.

Every file says which versions, seed and command made it, so that a change of a checked-in value can
be told from a change of the library behind it.
"""

import json
import pathlib
import platform

import numpy as np
import safetensors
from safetensors.numpy import save_file

DATA = pathlib.Path(__file__).resolve().parent / "data"


def provenance(script, seed, **more):
  """What a file says of its making: command, seed, and versions of what computed the values."""
  record = {
      "command": f"python3 tests/parity/{script}",
      "seed": str(seed),
      "python": platform.python_version(),
      "numpy": np.__version__,
      "safetensors": safetensors.__version__,
  }
  record.update({name: str(value) for name, value in more.items()})
  return dict(sorted(record.items()))


def write_tensors(name, tensors, record):
  """Writes data/<name>.safetensors; `tensors` maps names to numpy arrays."""
  path = DATA / f"{name}.safetensors"
  path.parent.mkdir(parents=True, exist_ok=True)
  contiguous = {key: np.ascontiguousarray(value) for key, value in sorted(tensors.items())}
  # One key: the package writes several in an order that changes from run to run.
  save_file(contiguous, path, metadata={"provenance": json.dumps(record)})
  path.chmod(0o644)  # the package writes for the owner alone
  print(f"{path.relative_to(DATA.parent)}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def write_table(name, record, **lists):
  """Writes data/<name>.json: the record, then lists with one entry a line, for readable diffs."""
  path = DATA / f"{name}.json"
  path.parent.mkdir(parents=True, exist_ok=True)
  parts = [f'"provenance": {json.dumps(record)}']
  for key, entries in lists.items():
    lines = ",\n".join("    " + json.dumps(entry, separators=(",", ":")) for entry in entries)
    parts.append(f'"{key}": [\n{lines}\n  ]')
  path.write_text("{\n  " + ",\n  ".join(parts) + "\n}\n")
  print(f"{path.relative_to(DATA.parent)}: {path.stat().st_size} bytes")
