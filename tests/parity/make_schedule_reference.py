#!/usr/bin/env python3
"""Makes data/schedules.json: learning rates and weight decays at chosen step counts, in float64.

The formulas are those of Megatron-LM's optimizer_param_scheduler; steps count samples there, but
the rule is the same in any unit.
"""

import math
import platform

from reference_files import write_table


def cosine(ratio):
  """1 at ratio 0, 0 at ratio 1."""
  return 0.5 * (math.cos(math.pi * ratio) + 1.0)


ANNEALINGS = {
    "linear": lambda q: 1.0 - q,
    "cosine": cosine,
    "exponential": lambda q: 2.0 * 0.5**q - 1.0,
    "minus_sqrt": lambda q: 1.0 - math.sqrt(q),
}


def learning_rate(n, style, wsd_decay_style, init, maximum, minimum, warmup, decay, wsd_decay):
  if warmup > 0 and n <= warmup:
    return init + (maximum - init) * n / warmup
  if style == "constant":
    return maximum
  if n > decay:
    return minimum
  if style == "inverse-square-root":
    return max(minimum, maximum * math.sqrt(max(warmup, 1)) / math.sqrt(max(n, 1)))
  if style == "WSD":
    start = decay - wsd_decay
    share = 1.0 if n <= start else ANNEALINGS[wsd_decay_style]((n - start) / wsd_decay)
  else:
    share = ANNEALINGS[style]((n - warmup) / (decay - warmup))
  return minimum + share * (maximum - minimum)


def weight_decay(n, style, start, end, steps):
  if style == "constant" or n > steps:
    return end
  ratio = n / steps
  share = ratio if style == "linear" else cosine(1.0 - ratio)
  return start + share * (end - start)


# init, max, min, warm-up steps, decay steps, WSD decay steps
SETTINGS = [
    (0.0, 1e-3, 1e-5, 100, 1000, 200),
    (1e-6, 6e-4, 6e-5, 37, 5003, 1009),
    (0.0, 3e-4, 0.0, 0, 640, 640),
]
STYLES = [("constant", None), ("linear", None), ("cosine", None), ("inverse-square-root", None)]
STYLES += [("WSD", decay) for decay in ANNEALINGS]


def rate_entries():
  for init, maximum, minimum, warmup, decay, wsd_decay in SETTINGS:
    steps = sorted({
        0, 1, warmup // 2, warmup, warmup + 1, (warmup + decay) // 2,
        decay - wsd_decay, decay - wsd_decay + 1,
        decay - 3 * wsd_decay // 4, decay - wsd_decay // 4,
        decay - 100, decay - 1, decay, decay + 1, 2 * decay})
    for style, wsd_style in STYLES:
      setting = {
          "style": style, "wsd_decay_style": wsd_style,
          "init_lr": init, "max_lr": maximum, "min_lr": minimum,
          "warmup_steps": warmup, "decay_steps": decay, "wsd_decay_steps": wsd_decay}
      yield {**setting, "n": steps, "expected": [
          learning_rate(n, style, wsd_style, init, maximum, minimum, warmup, decay, wsd_decay)
          for n in steps]}


def decay_entries():
  for style, start, end, steps in (
      ("constant", 0.1, 0.1, 1000), ("linear", 0.0, 0.1, 1000), ("linear", 0.04, 0.4, 777),
      ("cosine", 0.0, 0.1, 1000), ("cosine", 0.04, 0.4, 777)):
    points = sorted({0, 1, steps // 4, steps // 2, steps - 1, steps, steps + 1, 3 * steps})
    yield {"style": style, "start": start, "end": end, "steps": steps, "n": points,
           "expected": [weight_decay(n, style, start, end, steps) for n in points]}


if __name__ == "__main__":
  write_table(
      "schedules",
      {"command": "python3 tests/parity/make_schedule_reference.py",
       "python": platform.python_version()},
      learning_rate=list(rate_entries()), weight_decay=list(decay_entries()))
