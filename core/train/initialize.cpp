#include "train/initialize.hpp"

#include <algorithm>

#include "megatron/philox.hpp"

namespace megatron::train {
namespace {

template <class Draw>  // Draw: block of four draws -> four values
void draw(const RandomStream& stream, std::span<const passes::Run> runs, std::span<float> out,
          Draw&& values) {
  for (const auto& run : runs) {
    uint64_t block = UINT64_MAX;
    std::array<double, 4> four{};
    for (int64_t i = 0; i < run.length; ++i) {
      const auto element = static_cast<uint64_t>(run.logical_begin + i);
      if (element / 4 != block) {
        block = element / 4;
        four = values(stream.block(block));
      }
      out[static_cast<size_t>(run.local_begin + i)] = static_cast<float>(four[element % 4]);
    }
  }
}

}  // namespace

void initialize(const graph::Initializer& init, uint64_t seed, std::string_view name,
                std::span<const passes::Run> runs, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  const auto stream = RandomStream::make(seed, site_of(name));
  const auto constant = [&](double value) {
    draw(stream, runs, out, [&](const PhiloxBlock&) {
      return std::array<double, 4>{value, value, value, value};
    });
  };
  switch (init.kind) {
    case MGT_INIT_ZEROS:
      return;
    case MGT_INIT_ONES:
      return constant(1.0);
    case MGT_INIT_CONSTANT:
      return constant(init.a);
    case MGT_INIT_NORMAL:
      return draw(stream, runs, out, [&](const PhiloxBlock& b) {
        auto four = RandomStream::to_normal(b);
        for (auto& x : four) x = init.a + init.b * x;
        return four;
      });
    case MGT_INIT_UNIFORM:
      return draw(stream, runs, out, [&](const PhiloxBlock& b) {
        std::array<double, 4> four{};
        for (size_t i = 0; i < 4; ++i)
          four[i] =
              init.a + (init.b - init.a) * static_cast<double>(RandomStream::to_uniform(b[i]));
        return four;
      });
    default:
      MGT_CHECK(false, "unknown initializer");
  }
}

}  // namespace megatron::train
