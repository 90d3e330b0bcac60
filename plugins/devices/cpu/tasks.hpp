// Work grids. A grid follows from the shape alone, never from the number of workers, and every sum
// over tasks is taken in a fixed order: results have the same bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megatron/host.hpp"

namespace megatron::cpu {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Floats in 64 bytes: parts of a workspace start at multiples of it.
inline constexpr int64_t kAlignFloats = 16;

// body(task, worker) for every task; a single one runs on the calling thread as worker 0.
template <class Body>
void for_tasks(const Host& host, int64_t tasks, const Body& body) {
  if (tasks == 1) {
    body(int64_t{0}, uint32_t{0});
  } else if (tasks > 1) {
    host.parallel_for(tasks, body);
  }
}

// [0, total) in pieces of `size`.
struct Pieces {
  int64_t total, size;

  // About `target` each, a multiple of `unit`, and of even length.
  static Pieces of(int64_t total, int64_t target, int64_t unit = 1) {
    const int64_t count = std::max<int64_t>(1, ceil_div(total, std::max<int64_t>(target, 1)));
    return {total, std::max(unit, round_up(ceil_div(total, count), unit))};
  }
  int64_t count() const { return ceil_div(total, size); }
  int64_t begin(int64_t i) const { return i * size; }
  int64_t length(int64_t i) const { return std::min(size, total - i * size); }
};

}  // namespace megatron::cpu
