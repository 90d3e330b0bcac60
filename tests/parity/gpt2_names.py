"""Renames GPT-2 parameters between Hugging Face transformers and this project.

transformers keeps linear weights as Conv1D, [in, out], with query, key and value in one matrix;
here every linear weight is [out, in], attention axes are split in [heads, head_dim], and query, key
and value are apart.
"""

import numpy as np


def parameter_shapes(config):
  """Shapes of the trainable tensors, by our names, for a transformers GPT2Config."""
  hidden, heads, mlp = config.n_embd, config.n_head, 4 * config.n_embd
  head_dim = hidden // heads
  shapes = {
      "embedding.word.weight": (config.vocab_size, hidden),
      "embedding.position.weight": (config.n_positions, hidden),
      "final_norm.weight": (hidden,),
      "final_norm.bias": (hidden,),
  }
  for i in range(config.n_layer):
    layer = f"layers.{i}"
    for norm in ("input_norm", "post_attention_norm"):
      shapes[f"{layer}.{norm}.weight"] = (hidden,)
      shapes[f"{layer}.{norm}.bias"] = (hidden,)
    for part in ("query", "key", "value"):
      shapes[f"{layer}.attention.{part}.weight"] = (heads, head_dim, hidden)
      shapes[f"{layer}.attention.{part}.bias"] = (heads, head_dim)
    shapes[f"{layer}.attention.output.weight"] = (hidden, heads, head_dim)
    shapes[f"{layer}.attention.output.bias"] = (hidden,)
    shapes[f"{layer}.mlp.up.weight"] = (mlp, hidden)
    shapes[f"{layer}.mlp.up.bias"] = (mlp,)
    shapes[f"{layer}.mlp.down.weight"] = (hidden, mlp)
    shapes[f"{layer}.mlp.down.bias"] = (hidden,)
  return shapes


# One layer's tensors: transformers' suffix -> ours. Not here: c_attn, one tensor there, three here.
LAYER = {
    "ln_1.weight": "input_norm.weight",
    "ln_1.bias": "input_norm.bias",
    "ln_2.weight": "post_attention_norm.weight",
    "ln_2.bias": "post_attention_norm.bias",
    "attn.c_proj.weight": "attention.output.weight",
    "attn.c_proj.bias": "attention.output.bias",
    "mlp.c_fc.weight": "mlp.up.weight",
    "mlp.c_fc.bias": "mlp.up.bias",
    "mlp.c_proj.weight": "mlp.down.weight",
    "mlp.c_proj.bias": "mlp.down.bias",
}
OUTSIDE = {
    "transformer.wte.weight": "embedding.word.weight",
    "transformer.wpe.weight": "embedding.position.weight",
    "transformer.ln_f.weight": "final_norm.weight",
    "transformer.ln_f.bias": "final_norm.bias",
}
PARTS = ("query", "key", "value")


def from_transformers(config, tensors):
  """`tensors` (transformers' name -> array) under our names and in our layouts."""
  shapes = parameter_shapes(config)
  ours = {name: tensors[theirs] for theirs, name in OUTSIDE.items()}
  for i in range(config.n_layer):
    block, layer = f"transformer.h.{i}", f"layers.{i}"
    for theirs, name in LAYER.items():
      ours[f"{layer}.{name}"] = tensors[f"{block}.{theirs}"].T  # a vector is its own transpose
    weights = np.split(tensors[f"{block}.attn.c_attn.weight"].T, 3, axis=0)
    biases = np.split(tensors[f"{block}.attn.c_attn.bias"], 3)
    for part, weight, bias in zip(PARTS, weights, biases):
      ours[f"{layer}.attention.{part}.weight"] = weight
      ours[f"{layer}.attention.{part}.bias"] = bias
  assert ours.keys() == shapes.keys()
  return {name: np.array(value).reshape(shapes[name]) for name, value in ours.items()}


def to_transformers(config, ours):
  """The inverse of from_transformers."""
  hidden = config.n_embd
  tensors = {theirs: ours[name] for theirs, name in OUTSIDE.items()}
  for i in range(config.n_layer):
    block, layer = f"transformer.h.{i}", f"layers.{i}"
    for theirs, name in LAYER.items():
      value = ours[f"{layer}.{name}"]
      tensors[f"{block}.{theirs}"] = value.reshape(len(value), -1).T if value.ndim > 1 else value
    weights = [ours[f"{layer}.attention.{part}.weight"].reshape(hidden, hidden) for part in PARTS]
    biases = [ours[f"{layer}.attention.{part}.bias"].reshape(hidden) for part in PARTS]
    tensors[f"{block}.attn.c_attn.weight"] = np.concatenate(weights, axis=0).T
    tensors[f"{block}.attn.c_attn.bias"] = np.concatenate(biases)
  return tensors
