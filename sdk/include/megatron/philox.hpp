// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11, "Parallel random numbers: as
// easy as 1, 2, 3"). A draw depends only on (seed, site, step, sample, element), all of them
// logical, so that every layout of a run sees the same numbers.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace megatron {

using PhiloxBlock = std::array<uint32_t, 4>;

// Ten rounds on a 128-bit counter with a 64-bit key.
inline PhiloxBlock philox4x32(PhiloxBlock counter, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

// SplitMix64's finaliser (Steele et al. 2014): mixes the parts of a stream's identity into its key.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// FNV-1a, for naming a stream by text (a parameter's name).
constexpr uint64_t site_of(std::string_view name) {
  uint64_t h = 0xCBF29CE484222325;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return h;
}

// One stream of numbers. Element e of sample s is lane e % 4 of block (e / 4, s).
struct RandomStream {
  uint64_t key;

  static RandomStream make(uint64_t seed, uint64_t site, uint64_t step = 0) {
    return {mix64(mix64(mix64(seed) ^ site) ^ step)};
  }
  PhiloxBlock block(uint64_t block_index, uint64_t sample = 0) const {
    return philox4x32({static_cast<uint32_t>(block_index), static_cast<uint32_t>(block_index >> 32),
                       static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)},
                      key);
  }
  uint32_t bits(uint64_t element, uint64_t sample = 0) const {
    return block(element / 4, sample)[element % 4];
  }
  // [0, 1) with 24 bits.
  static float to_uniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
  float uniform(uint64_t element, uint64_t sample = 0) const {
    return to_uniform(bits(element, sample));
  }
  // Standard normals of one block (Box and Muller 1958), in double, two per pair of draws.
  static std::array<double, 4> to_normal(const PhiloxBlock& b) {
    std::array<double, 4> out{};
    for (size_t i = 0; i < 4; i += 2) {
      const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(b[i]) + 0.5) * 0x1p-32));
      const double angle = 2.0 * std::numbers::pi * (static_cast<double>(b[i + 1]) * 0x1p-32);
      out[i] = radius * std::cos(angle);
      out[i + 1] = radius * std::sin(angle);
    }
    return out;
  }
};

}  // namespace megatron
