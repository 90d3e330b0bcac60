#!/usr/bin/env python3
"""Makes data/numpy_random.json and data/gpt_index.json: NumPy's legacy random stream, and the
document, sample and shuffle indices that Megatron-LM's GPT dataset builds from it.

The sample index is had in closed form (the documents laid end to end, a binary search for each
sample's last token) rather than by the original's loop over documents.
"""

import math
import re

import numpy as np

from reference_files import provenance, write_table

SEED = 20240613
SPLIT_NAMES = ("train", "valid", "test")


def split_ranges(split, documents):
  """[begin, end) of the documents of each split; None where the split string gives it no share."""
  parts = [float(part) for part in re.findall(r"[.0-9]+", split)]
  weights = np.array(parts + [0.0] * (len(SPLIT_NAMES) - len(parts)))
  ranges, begin = [], 0
  for share in (weights / weights.sum()).tolist():
    end = begin + share
    bounds = [round(share_sum * float(documents)) for share_sum in (begin, end)]  # halves to even
    ranges.append(bounds if end > begin else None)
    begin = end
  return ranges


def count_epochs(tokens_per_epoch, num_samples, sequence_length, extra):
  if num_samples is None:
    return 1
  return max(1, -(-(num_samples * sequence_length + extra) // tokens_per_epoch))


def sample_index(lengths, sequence_length, extra, drop_last):
  """(position in the document index, offset) where each sample starts, then where the last ends."""
  ends = np.cumsum(lengths, dtype=np.int64)
  tokens = int(ends[-1]) - extra
  if drop_last:
    count = max(tokens, 0) // sequence_length
  else:
    # Megatron-LM divides in single precision, which rounds above 2^24 tokens.
    count = math.ceil(np.float32(tokens) / np.float32(sequence_length))
  rows = [(0, 0)]
  for sample in range(1, count + 1):
    last = sample * sequence_length + extra - 1  # the sample's last token in the laid-out documents
    if last < ends[-1]:
      document = int(np.searchsorted(ends, last, side="right"))
      rows.append((document, int(last - (ends[document] - lengths[document]) + 1 - extra)))
    else:
      rows.append((len(lengths) - 1, int(lengths[-1] - extra)))
  return rows


def build_index(case):
  """The three indices of one split, with the counts that lead to them."""
  lengths = np.array(case["document_lengths"], np.int64)
  sequence_length, num_samples = case["sequence_length"], case["num_samples"]
  extra = int(case["add_extra_token"])
  ranges = split_ranges(case["split"], len(lengths))
  begin, end = ranges[SPLIT_NAMES.index(case["split_name"])]
  tokens = int(lengths[begin:end].sum())
  epochs = count_epochs(tokens, num_samples, sequence_length, extra)

  separate, before_last = False, 0
  if epochs > 1:
    before_last = ((epochs - 1) * tokens - extra) // sequence_length
    per_epoch = (tokens - extra) // sequence_length
    assert 0 <= num_samples - before_last <= per_epoch + 1
    separate = num_samples - before_last < int(0.80 * per_epoch)

  random = np.random.RandomState(case["seed"])
  groups = [epochs - 1, 1] if separate else [epochs]
  parts = [np.tile(np.arange(begin, end, dtype=np.int32), group) for group in groups]
  for part in parts:
    random.shuffle(part)
  documents = np.concatenate(parts)

  samples = sample_index(lengths[documents], sequence_length, extra, case["drop_last"])
  total = len(samples) - 1
  bounds = [0, before_last, total] if separate else [0, total]
  parts = [np.arange(low, high, dtype=np.uint32) for low, high in zip(bounds, bounds[1:])]
  for part in parts:
    random.shuffle(part)
  return {
      "split_ranges": ranges, "num_epochs": epochs, "separate_last_epoch": bool(separate),
      "document_index": documents.tolist(), "sample_index": samples,
      "shuffle_index": np.concatenate(parts).tolist()}


def case_of(lengths, sequence_length, num_samples, seed, split="1", split_name="train",
            add_extra_token=True, drop_last=True, note=None):
  case = {
      "document_lengths": lengths, "sequence_length": sequence_length, "num_samples": num_samples,
      "split": split, "split_name": split_name, "seed": seed,
      "add_extra_token": add_extra_token, "drop_last": drop_last}
  return {"note": note, **case} if note else case


def chosen_cases():
  five = [5, 3, 7, 4, 6]
  yield case_of(five, 4, None, 1234)
  yield case_of(five, 4, 13, 1234)
  yield case_of(five, 4, 18, 1234)
  yield case_of([40], 8, None, 0, note="one document")
  yield case_of([3, 2], 8, None, 1234, note="too short for one sample")
  yield case_of([3, 2], 8, 4, 1234, note="an epoch shorter than a sample")
  yield case_of([0, 9, 0, 0, 6, 0, 4, 0], 5, 9, 7, note="empty documents")
  yield case_of([9, 7], 8, None, 1234, add_extra_token=False, note="samples end with documents")
  large = [2**23, 2**22, 2**22, 2]
  yield case_of(large, 2**22, None, 1234, "0,1,0", "valid", drop_last=False,
                note="2^24+1 tokens: single precision drops the fifth, partial sample")


def random_cases(count):
  random = np.random.RandomState(SEED)
  splits = ["1", "969,30,1", "900, 50, 50", "8:1:1", "0.7,0.2,0.1", "90/5/5", "1,1,1", "99,1,0",
            "2,3", "0,1,0"]
  made = 0
  while made < count:
    shortest, longest = int(random.randint(4) != 0), random.choice([6, 20, 60])
    lengths = random.randint(shortest, longest, random.randint(1, 31)).tolist()
    split = splits[random.randint(len(splits))]
    ranges = split_ranges(split, len(lengths))
    filled = [name for name, bounds in zip(SPLIT_NAMES, ranges)
              if bounds and sum(lengths[slice(*bounds)]) > 0]
    if not filled:
      continue
    split_name = filled[random.randint(len(filled))]
    begin, end = ranges[SPLIT_NAMES.index(split_name)]
    tokens = sum(lengths[begin:end])
    sequence_length = int(random.choice([2, 3, 5, 8, 13, 32]))
    epochs = random.uniform(0.2, 5.0)
    num_samples = None if random.randint(4) == 0 else max(1, int(epochs * tokens / sequence_length))
    seed = int(random.choice([0, 1, 42, 1234, random.randint(2**31)]))
    extra = bool(random.randint(6))
    drop_last = not (split_name == "valid" and random.randint(3))
    if epochs * tokens / sequence_length > 160:
      continue  # keeps the file small
    if not drop_last and 0 in lengths[begin:end]:
      continue  # Megatron-LM raises where a partial sample ends in an empty document
    case = case_of(lengths, sequence_length, num_samples, seed, split, split_name, extra, drop_last)
    made += 1
    yield case


def random_streams():
  for seed in (0, 42, 1234, 123456789):
    raw = np.random.RandomState(seed).randint(0, 2**32, 4, dtype=np.uint32)
    doubles = np.random.RandomState(seed).random_sample(4)
    entry = {"seed": seed, "uint32": raw.tolist(), "double": doubles.tolist()}
    for size in (10, 1000):
      random = np.random.RandomState(seed)
      values = np.arange(size)
      random.shuffle(values)
      entry[f"shuffle_{size}"] = values.tolist()
      entry[f"uint32_after_shuffle_{size}"] = int(random.randint(0, 2**32, dtype=np.uint32))
    yield entry


def main():
  record = provenance("make_numpy_reference.py", SEED)
  write_table("numpy_random", record, streams=list(random_streams()))
  cases = list(chosen_cases()) + list(random_cases(56))
  entries = [{**case, "expected": build_index(case)} for case in cases]
  separate = sum(entry["expected"]["separate_last_epoch"] for entry in entries)
  several = sum(entry["expected"]["num_epochs"] > 1 for entry in entries)
  partial = sum(not entry["drop_last"] for entry in entries)
  assert separate >= 8 and several - separate >= 8 and partial >= 5, (separate, several, partial)
  write_table("gpt_index", record, cases=entries)
  print(f"  {len(entries)} cases: {several} of several epochs, {separate} with the last one apart, "
        f"{partial} that keep a partial sample")


if __name__ == "__main__":
  main()
