#!/usr/bin/env python3
"""Makes data/adamw.safetensors: the AdamW rule alone, in float64, from torch.optim.AdamW.

A matrix that decays and a vector that does not; gradients of magnitudes from 1e-10 to 1e2, so that
epsilon counts in some elements; a learning rate that falls, so that it must be that of the step.
"""

import numpy as np
import torch

from reference_files import provenance, write_tensors

SEED = 20240612
STEPS = 20
BETAS = (0.9, 0.999)
EPSILON = 1e-8
WEIGHT_DECAY = {"matrix": 0.1, "vector": 0.0}


def plain_adamw(value, gradients, rates, decay):
  """Loshchilov & Hutter 2019, algorithm 2 with decay multiplied by the learning rate."""
  first, second = np.zeros_like(value), np.zeros_like(value)
  for step, (gradient, rate) in enumerate(zip(gradients, rates), start=1):
    first = BETAS[0] * first + (1 - BETAS[0]) * gradient
    second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
    update = first / (1 - BETAS[0]**step) / (np.sqrt(second / (1 - BETAS[1]**step)) + EPSILON)
    value = value - rate * decay * value - rate * update
  return value


def main():
  random = np.random.RandomState(SEED)
  rates = np.linspace(1e-3, 1e-4, STEPS)
  tensors = {"learning_rate": rates}
  for name, shape in (("matrix", (7, 5)), ("vector", (6,))):
    initial = random.standard_normal(shape)
    magnitudes = 10.0**random.uniform(-10, 2, shape)
    gradients = magnitudes * random.standard_normal((STEPS,) + shape)
    parameter = torch.nn.Parameter(torch.tensor(initial))
    decay = WEIGHT_DECAY[name]
    optimizer = torch.optim.AdamW([parameter], betas=BETAS, eps=EPSILON, weight_decay=decay)
    values = []
    for gradient, rate in zip(gradients, rates):
      optimizer.param_groups[0]["lr"] = rate
      parameter.grad = torch.tensor(gradient)
      optimizer.step()
      values.append(parameter.detach().numpy().copy())
    np.testing.assert_allclose(
        values[-1], plain_adamw(initial, gradients, rates, decay), rtol=1e-12)
    state = optimizer.state[parameter]
    tensors.update({
        f"{name}.initial": initial,
        f"{name}.gradient": gradients,
        f"{name}.value": np.stack(values),
        f"{name}.first_moment": state["exp_avg"].numpy(),
        f"{name}.second_moment": state["exp_avg_sq"].numpy()})
  write_tensors("adamw", tensors, provenance(
      "make_adamw_reference.py", SEED, torch=torch.__version__, betas="0.9 0.999", epsilon=EPSILON,
      weight_decay=WEIGHT_DECAY))


if __name__ == "__main__":
  main()
