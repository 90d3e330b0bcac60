#!/usr/bin/env python3
"""Makes data/gpt2_tiny and data/gpt2_accumulate: losses, gradients and weights of a small GPT-2.

The values come from transformers' GPT2LMHeadModel and torch.optim.AdamW, once in float32 and once
in float64; the project is compared with the float64 run, and the float32 run says how far from it a
correct float32 implementation lies. README.md lists the files.
"""

import math

import numpy as np
import torch
import transformers

from gpt2_names import from_transformers, parameter_shapes, to_transformers
from reference_files import provenance, write_tensors

SEED = 20240611
ACCUMULATE_SEED = 20240614
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.1
CLIP_GRAD = 1.0


def gpt2_config(layers, hidden, heads, positions, vocabulary):
  return transformers.GPT2Config(
      n_layer=layers, n_embd=hidden, n_head=heads, n_positions=positions, vocab_size=vocabulary,
      activation_function="gelu_new", layer_norm_epsilon=1e-5,
      resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def bfloat16_values(array):
  """Rounds to values that bfloat16 holds exactly: one file for float32 and bfloat16 runs."""
  bits = np.asarray(array, np.float32).view(np.uint32)
  return ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)


def initial_weights(config, random):
  """Weights large enough for peaked attention; biases and norms off 0 and 1: each one counts."""
  weights = {}
  for name, shape in parameter_shapes(config).items():
    value = random.standard_normal(shape)
    if name.endswith("norm.weight"):
      value = 1.0 + 0.2 * value
    elif name.endswith(".bias"):
      value = 0.1 * value
    elif name.startswith("embedding."):
      value = 0.25 * value
    else:
      inputs = np.prod(shape[1:]) if name.endswith("attention.output.weight") else shape[-1]
      value = 1.2 / math.sqrt(inputs) * value
    weights[name] = bfloat16_values(value)
  return weights


def random_batch(random, vocabulary, shape, drop):
  """tokens, labels (the next token) and a 0/1 mask that leaves out a share `drop` of positions."""
  text = random.randint(0, vocabulary, shape[:-1] + (shape[-1] + 1,)).astype(np.int32)
  mask = (random.random_sample(shape) >= drop).astype(np.float32)
  return text[..., :-1], text[..., 1:], mask


def build_model(config, weights, dtype):
  model = transformers.GPT2LMHeadModel(config).to(dtype)
  state = {name: torch.tensor(np.ascontiguousarray(value)).to(dtype)
           for name, value in to_transformers(config, weights).items()}
  state["lm_head.weight"] = state["transformer.wte.weight"]
  missing, unexpected = model.load_state_dict(state, strict=False)
  buffers = (".attn.bias", ".attn.masked_bias")  # the causal mask
  assert not unexpected and all(name.endswith(buffers) for name in missing)
  assert model.lm_head.weight is model.transformer.wte.weight
  return model.train()


def by_our_names(config, model, value_of):
  values = {name: value_of(p).detach().numpy().copy() for name, p in model.named_parameters()}
  return from_transformers(config, values)


def masked_loss_sum(model, tokens, labels, mask):
  """sum(mask * cross entropy) of one micro-batch; logits [batch, sequence, vocabulary]."""
  logits = model(torch.from_numpy(tokens).long()).logits
  losses = torch.nn.functional.cross_entropy(
      logits.flatten(0, -2), torch.from_numpy(labels).long().flatten(), reduction="none")
  return (losses * torch.from_numpy(mask).flatten().to(losses.dtype)).sum(), logits


def clip_by_global_norm(parameters):
  """Megatron's rule: factor clip / (norm + 1e-6), applied only below 1. Returns the norm before."""
  norm = torch.sqrt(sum((p.grad**2).sum() for p in parameters))
  factor = CLIP_GRAD / (norm + 1e-6)
  if factor < 1.0:
    for p in parameters:
      p.grad.mul_(factor)
  return norm.item()


def train(config, weights, dtype, steps):
  """Trains over `steps`, each a list of micro-batches (tokens, labels, mask); the loss of a step
  and its gradient are the mean over all counted tokens of the step."""
  model = build_model(config, weights, dtype)
  parameters = list(model.parameters())
  optimizer = torch.optim.AdamW(
      [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
       {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
      lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8)
  run = {"loss": [], "loss_sum": [], "grad_norm": [], "gradient": []}
  for micro_batches in steps:
    optimizer.zero_grad(set_to_none=True)
    count = sum(float(mask.sum()) for _, _, mask in micro_batches)
    sums = []
    for tokens, labels, mask in micro_batches:
      loss_sum, logits = masked_loss_sum(model, tokens, labels, mask)
      (loss_sum / count).backward()
      sums.append(loss_sum.item())
      run.setdefault("first_logits", logits.detach().numpy().copy())
    run["loss_sum"].append(sums)
    run["loss"].append(sum(sums) / count)
    run["gradient"].append(by_our_names(config, model, lambda p: p.grad))
    run["grad_norm"].append(clip_by_global_norm(parameters))
    optimizer.step()
  run["final"] = by_our_names(config, model, lambda p: p)
  return run


def relative_errors(prefix, values, reference):
  """‖value - reference‖ / ‖reference‖ of each tensor. The key bias is left out: softmax does not
  feel it, its true gradient is zero, and what a run has there is rounding noise."""
  errors = {}
  for name, expected in reference.items():
    if not name.endswith("attention.key.bias"):
      error = np.linalg.norm((values[name] - expected).ravel()) / np.linalg.norm(expected.ravel())
      errors[f"{prefix}/{name}"] = np.array([error])
  return errors


def as_float32(tensors):
  return {name: value.astype(np.float32) for name, value in tensors.items()}


def run_both(config, weights, steps):
  """The float64 run, the float32 run, and the tensors that say how the two compare."""
  double = train(config, weights, torch.float64, steps)
  single = train(config, weights, torch.float32, steps)
  tensors = {}
  for name in ("loss", "grad_norm"):
    tensors[f"{name}.float64"] = np.array(double[name], np.float64)
    tensors[f"{name}.float32"] = np.array(single[name], np.float32)
  tensors.update(relative_errors(
      "gradient_error.float32", single["gradient"][0], double["gradient"][0]))
  tensors.update(relative_errors("final_error.float32", single["final"], double["final"]))
  return double, tensors


def report(tensors):
  loss, norm = tensors["loss.float64"], tensors["grad_norm.float64"]
  loss_error = np.max(np.abs(tensors["loss.float32"] - loss) / loss)
  gradient_error, final_error = (
      max(value[0] for name, value in tensors.items() if name.startswith(prefix))
      for prefix in ("gradient_error", "final_error"))
  print(f"  loss {loss[0]:.6f} to {loss[-1]:.6f}, grad norm {norm.max():.4f} to {norm.min():.4f}\n"
        f"  float32 from float64: loss {loss_error:.1e}, gradient {gradient_error:.1e}, "
        f"final weights {final_error:.1e}")


def record_of(config, seed):
  return provenance(
      "make_gpt2_reference.py", seed,
      torch=torch.__version__, transformers=transformers.__version__,
      num_layers=config.n_layer, hidden_size=config.n_embd, num_attention_heads=config.n_head,
      max_position_embeddings=config.n_positions, vocab_size=config.vocab_size,
      learning_rate=LEARNING_RATE, betas="0.9 0.999", epsilon="1e-8", weight_decay=WEIGHT_DECAY,
      clip_grad=CLIP_GRAD)


def make_tiny():
  """20 steps over one batch of 3 sequences."""
  random = np.random.RandomState(SEED)
  config = gpt2_config(layers=3, hidden=48, heads=4, positions=24, vocabulary=211)
  weights = initial_weights(config, random)
  tokens, labels, mask = random_batch(random, config.vocab_size, (3, 24), drop=0.2)
  mask[1, 17:] = 0.0  # a padded tail
  double, tensors = run_both(config, weights, [[(tokens, labels, mask)]] * 20)
  record = record_of(config, SEED)
  write_tensors("gpt2_tiny/initial", weights, record)
  write_tensors("gpt2_tiny/gradient", as_float32(double["gradient"][0]), record)
  write_tensors("gpt2_tiny/final", as_float32(double["final"]), record)
  write_tensors("gpt2_tiny/run", {
      "tokens": tokens, "labels": labels, "loss_mask": mask,
      "logits": double["first_logits"].astype(np.float32), **tensors}, record)
  report(tensors)


def make_accumulate():
  """5 steps of 4 micro-batches that count very different numbers of tokens, new ones each step."""
  random = np.random.RandomState(ACCUMULATE_SEED)
  config = gpt2_config(layers=2, hidden=16, heads=2, positions=12, vocabulary=53)
  weights = initial_weights(config, random)
  parts = [random_batch(random, config.vocab_size, (5, 2, 12), drop)
           for drop in (0.0, 0.3, 0.6, 0.9)]
  # [step, micro-batch, sequence of the batch, position]
  tokens, labels, mask = (np.stack(arrays, axis=1) for arrays in zip(*parts))
  mask[2, 3] = 0.0  # one micro-batch that counts nothing
  steps = [[(tokens[s, m], labels[s, m], mask[s, m]) for m in range(4)] for s in range(5)]
  double, tensors = run_both(config, weights, steps)
  sums, counts = np.array(double["loss_sum"]), mask.sum(axis=(2, 3), dtype=np.float64)
  mean_of_means = (sums / np.maximum(counts, 1.0)).mean(axis=1)
  # The wrong rule must be told from the right one at every step.
  assert np.all(np.abs(mean_of_means - tensors["loss.float64"]) > 5e-3 * tensors["loss.float64"])
  record = record_of(config, ACCUMULATE_SEED)
  write_tensors("gpt2_accumulate/initial", weights, record)
  write_tensors("gpt2_accumulate/gradient", {
      f"step{s}/{name}": value
      for s, gradient in enumerate(double["gradient"])
      for name, value in as_float32(gradient).items()}, record)
  write_tensors("gpt2_accumulate/final", as_float32(double["final"]), record)
  write_tensors("gpt2_accumulate/run", {
      "tokens": tokens, "labels": labels, "loss_mask": mask, "loss_sum.float64": sums,
      "count": counts, "mean_of_means.float64": mean_of_means, **tensors}, record)
  report(tensors)


if __name__ == "__main__":
  torch.set_num_threads(1)  # one order of summation
  torch.use_deterministic_algorithms(True)
  make_tiny()
  make_accumulate()
