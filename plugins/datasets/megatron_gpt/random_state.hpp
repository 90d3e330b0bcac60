// NumPy's legacy RandomState, as far as Megatron's index building uses it: shuffles must come out
// the same element by element, or a run cannot be compared with one of Megatron's.
#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace megatron::gpt {

class RandomState {
 public:
  // numpy.random.RandomState(seed): the classic initialisation of MT19937, the same as the
  // standard library's.
  explicit RandomState(uint32_t seed) : engine_(seed) {}

  uint32_t next_uint32() { return static_cast<uint32_t>(engine_()); }
  uint64_t next_uint64() {
    const uint64_t high = next_uint32();
    return high << 32 | next_uint32();
  }
  // random_sample(): 53 bits in [0, 1).
  double next_double() {
    const auto a = next_uint32() >> 5;
    const auto b = next_uint32() >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
  }

  // Uniform in [0, max]: draws masked to max's bits until one fits; 32-bit draws while max fits.
  uint64_t interval(uint64_t max) {
    if (max == 0) return 0;
    const uint64_t mask = ~uint64_t{0} >> std::countl_zero(max);
    uint64_t value;
    if (max <= 0xFFFFFFFF) {
      while ((value = next_uint32() & mask) > max) {
      }
    } else {
      while ((value = next_uint64() & mask) > max) {
      }
    }
    return value;
  }

  // Fisher and Yates from the end, as RandomState.shuffle on a one-dimensional array.
  template <class T>
  void shuffle(std::span<T> values) {
    for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace megatron::gpt
