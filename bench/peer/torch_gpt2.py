#!/usr/bin/env python3
"""The peer: one GPT-2 124M training step in plain PyTorch, float32 on the CPU, timed.

The host's benchmark does the same work: learned positions, tied output layer, no dropout, mean
cross entropy, gradients clipped to a global norm of 1, AdamW without decay on vectors. Prints one
JSON object.
"""

import argparse
import json
import math
import os
import resource
import statistics
import time

# Before torch: with OMP_PROC_BIND its import ties this thread to one processor.
PROCESSORS = len(os.sched_getaffinity(0))

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
  def __init__(self, hidden, heads):
    super().__init__()
    self.heads = heads
    self.input_norm = nn.LayerNorm(hidden)
    self.qkv = nn.Linear(hidden, 3 * hidden)
    self.output = nn.Linear(hidden, hidden)
    self.post_attention_norm = nn.LayerNorm(hidden)
    self.up = nn.Linear(hidden, 4 * hidden)
    self.down = nn.Linear(4 * hidden, hidden)

  def attention(self, x, causal):  # x: [batch, sequence, hidden]
    batch, sequence, hidden = x.shape
    q, k, v = (part.view(batch, sequence, self.heads, -1).transpose(1, 2)
               for part in self.qkv(x).split(hidden, dim=2))
    if hasattr(F, "scaled_dot_product_attention"):  # torch 2
      mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
      scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(q.size(-1)))
      mixed = scores.masked_fill(~causal, float("-inf")).softmax(-1) @ v
    return self.output(mixed.transpose(1, 2).reshape(batch, sequence, hidden))

  def forward(self, x, causal):
    x = x + self.attention(self.input_norm(x), causal)
    return x + self.down(F.gelu(self.up(self.post_attention_norm(x)), approximate="tanh"))


class Gpt2(nn.Module):
  def __init__(self, vocabulary, positions, layers, hidden, heads):
    super().__init__()
    self.word = nn.Embedding(vocabulary, hidden)
    self.position = nn.Embedding(positions, hidden)
    self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
    self.final_norm = nn.LayerNorm(hidden)
    for name, parameter in self.named_parameters():
      if parameter.dim() > 1:
        residual = name.endswith(("output.weight", "down.weight"))
        nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)
      elif name.endswith("bias"):
        nn.init.zeros_(parameter)

  def forward(self, tokens, labels):
    sequence = tokens.size(1)
    causal = torch.ones(sequence, sequence, dtype=torch.bool).tril()
    x = self.word(tokens) + self.position.weight[:sequence]
    for block in self.blocks:
      x = block(x, causal)
    logits = F.linear(self.final_norm(x), self.word.weight)  # [batch, sequence, vocabulary]
    return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


def parse_arguments():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--batch", type=int, default=4)
  parser.add_argument("--sequence", type=int, default=1024)
  parser.add_argument("--steps", type=int, default=5, help="timed steps, after the warm-up")
  parser.add_argument("--warmup", type=int, default=1)
  parser.add_argument("--threads", type=int, default=PROCESSORS)
  parser.add_argument("--seed", type=int, default=1234)
  arguments = parser.parse_args()
  if not 1 <= arguments.sequence <= 1024:
    parser.error("--sequence: the model has 1024 positions; choose 1 to 1024")
  if arguments.steps < 1:
    parser.error("--steps: at least 1 is needed for a median")
  return arguments


def loaded_blas():
  """The BLAS libraries in this process; the system chooses which one Debian's torch gets."""
  with open("/proc/self/maps", encoding="utf-8") as maps:
    paths = {line.split()[-1] for line in maps if "blas" in line.split()[-1]}
  return sorted("/".join(path.split("/")[-2:]) for path in paths)


def main():
  arguments = parse_arguments()
  torch.set_num_threads(arguments.threads)
  torch.manual_seed(arguments.seed)
  vocabulary = 50257
  model = Gpt2(vocabulary, positions=1024, layers=12, hidden=768, heads=12)
  parameters = list(model.parameters())
  optimizer = torch.optim.AdamW(
      [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
       {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
      lr=3e-4, betas=(0.9, 0.999), eps=1e-8)

  seconds, losses = [], []
  for _ in range(arguments.warmup + arguments.steps):
    text = torch.randint(vocabulary, (arguments.batch, arguments.sequence + 1))
    begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss = model(text[:, :-1], text[:, 1:].contiguous())
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    losses.append(loss.item())
    seconds.append(time.perf_counter() - begin)

  timed = seconds[arguments.warmup:]
  tokens = arguments.batch * arguments.sequence
  tuning = ("LD_LIBRARY_PATH", "OMP_", "OPENBLAS_", "MALLOC_", "GLIBC_TUNABLES")
  print(json.dumps({
      "tokens_per_second": round(tokens / statistics.median(timed), 2),
      "step_seconds": [round(s, 4) for s in timed],
      "warmup_seconds": [round(s, 4) for s in seconds[:arguments.warmup]],
      "losses": [round(loss, 4) for loss in losses],
      "peak_rss_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
      "batch": arguments.batch, "sequence": arguments.sequence, "vocabulary": vocabulary,
      "parameters": sum(p.numel() for p in parameters),
      "torch": torch.__version__,
      "threads": torch.get_num_threads(),
      "interop_threads": torch.get_num_interop_threads(),
      "processors": PROCESSORS, "blas": loaded_blas(),
      "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(tuning)},
  }, indent=2))


if __name__ == "__main__":
  main()
