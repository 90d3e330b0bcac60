#include "elementwise/block_program.hpp"

#include <algorithm>
#include <cstring>

#include "elementwise/slot_allocator.hpp"
#include "tasks.hpp"

namespace megatron::cpu {
namespace {

constexpr int64_t kCacheFloats = 6 * 1024;  // of the 8192 in a 32 KiB first-level cache
constexpr int64_t kTaskElements = 64 * 1024;

}  // namespace

BlockProgram::BlockProgram(const Expression& expression, std::vector<int64_t> periods,
                           const TensorDesc& result)
    : periods_(std::move(periods)),
      dropout_(result),
      elements_(result.elements()),
      outputs_(expression.outputs.size()) {
  compile(expression);
}

// ---- compiling
// -----------------------------------------------------------------------------------

uint32_t BlockProgram::uniform_of(const Operand& operand) {
  uniforms_.push_back({operand, false, ElementOp::add, 0, 0, operand.kind == Operand::Kind::input});
  return static_cast<uint32_t>(uniforms_.size() - 1);
}

BlockProgram::Ref BlockProgram::ref_of(const Operand& operand, const std::vector<Ref>& results) {
  if (operand.kind == Operand::Kind::result) return results[operand.index];
  if (operand.kind == Operand::Kind::input && periods_[operand.index] != 1) {
    const int64_t period = periods_[operand.index];
    if (period == elements_ || period > block_) return {Place::input, operand.index};
    for (uint32_t i = 0; i < patterns_.size(); ++i) {
      if (patterns_[i].input == operand.index) return {Place::pattern, i};
    }
    patterns_.push_back({operand.index, period});
    return {Place::pattern, static_cast<uint32_t>(patterns_.size() - 1)};
  }
  return {Place::uniform, uniform_of(operand)};
}

// Block length: all streams together fit the cache; a multiple of every shorter period, and no
// longer than an even multiple of it.
void BlockProgram::choose_block() {
  const auto streams = static_cast<int64_t>(slots_ + periods_.size() + outputs_);
  const int64_t target = std::clamp<int64_t>(kCacheFloats / streams / 64 * 64, 256, 2048);
  int64_t longest = 1;
  for (const int64_t p : periods_) {
    if (p > 0 && p <= target && p != elements_) longest = std::max(longest, p);
  }
  block_ = target / longest * longest;
  for (const int64_t p : periods_) {
    if (p > block_ && p != elements_) long_periods_.push_back(p);
  }
  task_ = round_up(std::max<int64_t>(1, std::min(elements_, kTaskElements)), block_);
}

void BlockProgram::compile(const Expression& x) {
  const auto n = x.instructions.size();
  SlotAllocator slots(x, [&](const Operand& o) {
    return o.kind == Operand::Kind::input && periods_[o.index] == elements_;
  });
  slots_ = slots.upper_bound();
  choose_block();
  std::vector<Ref> results(n);
  for (uint32_t i = 0; i < n; ++i) {
    const Instruction& in = x.instructions[i];
    const bool binary = arity(in.op) == 2;
    const Ref a = ref_of(in.a, results);
    const Ref b = binary ? ref_of(in.b, results) : a;
    const bool drops = in.op == ElementOp::dropout;
    if (a.place == Place::uniform && b.place == Place::uniform && !drops) {
      const bool rounds = uniforms_[a.index].rounds || uniforms_[b.index].rounds;
      uniforms_.push_back({{}, true, in.op, a.index, b.index, rounds});
      results[i] = {Place::uniform, static_cast<uint32_t>(uniforms_.size() - 1)};
      continue;
    }
    Step step;
    step.a = a;
    step.b = b;
    const auto place = slots.place(i);
    step.to = {place.output ? Place::output : Place::slot, place.index};
    if (drops) {
      // The factors take the place of the second operand, in a slot of their own.
      step.kind = Step::Kind::dropout;
      step.rate = DropoutRate::of(in.p);
      step.site = in.site;
      step.b = {Place::slot, place.factors};
    }
    step.fn = element_kernel(in.op, a.place == Place::uniform             ? Uniform::a
                                    : binary && b.place == Place::uniform ? Uniform::b
                                                                          : Uniform::none);
    results[i] = step.to;
    steps_.push_back(step);
  }
  for (uint32_t o = 0; o < x.outputs.size(); ++o) {
    const Ref from = ref_of(x.outputs[o], results);
    if (from.place == Place::output && from.index == o) continue;
    Step step;
    step.kind = Step::Kind::copy;
    step.a = from;
    step.to = {Place::output, o};
    steps_.push_back(step);
  }
}

// ---- running
// -------------------------------------------------------------------------------------

int64_t BlockProgram::worker_floats() const {
  const auto blocks = static_cast<int64_t>(slots_ + patterns_.size());
  return blocks * round_up(block_, kAlignFloats);
}

uint64_t BlockProgram::workspace_bytes(uint32_t workers) const {
  const auto uniforms = round_up(static_cast<int64_t>(uniforms_.size()), kAlignFloats);
  return static_cast<uint64_t>(uniforms) * (sizeof(double) + sizeof(float)) +
         static_cast<uint64_t>(worker_floats()) * workers * sizeof(float);
}

const float* BlockProgram::source(const Scratch& s, Ref ref, int64_t begin) const {
  switch (ref.place) {
    case Place::uniform:
      return s.uniform_floats + ref.index;
    case Place::input: {
      const int64_t period = periods_[ref.index];
      return s.launch->input(ref.index) + (period == elements_ ? begin : begin % period);
    }
    case Place::pattern:
      return s.patterns + ref.index * round_up(block_, kAlignFloats);
    default:
      return target(s, ref, begin);
  }
}

float* BlockProgram::target(const Scratch& s, Ref ref, int64_t begin) const {
  return ref.place == Place::output ? s.launch->output(ref.index) + begin
                                    : s.slots + ref.index * round_up(block_, kAlignFloats);
}

void BlockProgram::run_block(const Scratch& s, int64_t begin, int64_t n) const {
  for (const Step& step : steps_) {
    const float* a = source(s, step.a, begin);
    float* to = target(s, step.to, begin);
    if (step.kind == Step::Kind::copy) {
      if (step.a.place == Place::uniform) {
        std::fill_n(to, n, *a);
      } else if (to != a) {
        std::memcpy(to, a, static_cast<size_t>(n) * sizeof(float));
      }
      continue;
    }
    const float* b = source(s, step.b, begin);
    if (step.kind == Step::Kind::dropout) {
      const auto rng = s.launch->rng();
      const auto stream = RandomStream::make(rng.seed, step.site, rng.step);
      float* factors = target(s, step.b, begin);
      dropout_.for_runs(begin, n, [&](int64_t at, int64_t size, int64_t sample, int64_t e) {
        if (e < 0) return static_cast<void>(std::fill_n(factors + at, size, 0.0f));
        dropout_factors(stream, static_cast<uint64_t>(rng.sample_offset + sample),
                        static_cast<uint64_t>(e), size, step.rate, factors + at);
      });
    }
    step.fn(a, b, to, n);
  }
}

void BlockProgram::run(const Host& host, const Launch& launch) const {
  const auto count = static_cast<int64_t>(uniforms_.size());
  auto* uniforms = launch.workspace<double>();
  auto* floats = reinterpret_cast<float*>(uniforms + round_up(count, kAlignFloats));
  float* scratch = floats + round_up(count, kAlignFloats);
  for (int64_t u = 0; u < count; ++u) {
    const UniformStep& step = uniforms_[static_cast<size_t>(u)];
    uniforms[u] = step.is_op ? evaluate(step.op, uniforms[step.a], uniforms[step.b], 1)
                  : step.source.kind == Operand::Kind::input
                      ? static_cast<double>(launch.input(step.source.index)[0])
                  : step.source.kind == Operand::Kind::scalar ? launch.scalar(step.source.index)
                                                              : step.source.number;
    floats[u] = static_cast<float>(uniforms[u]);
    if (step.rounds) uniforms[u] = static_cast<double>(floats[u]);
  }
  for_tasks(host, ceil_div(elements_, task_), [&](int64_t task, uint32_t worker) {
    Scratch s{&launch, uniforms, floats, scratch + worker * worker_floats(), nullptr};
    s.patterns = s.slots + slots_ * round_up(block_, kAlignFloats);
    for (size_t i = 0; i < patterns_.size(); ++i) {
      float* out = s.patterns + static_cast<int64_t>(i) * round_up(block_, kAlignFloats);
      for (int64_t e = 0; e < block_; e += patterns_[i].period) {
        std::copy_n(launch.input(patterns_[i].input), patterns_[i].period, out + e);
      }
    }
    const int64_t end = std::min(elements_, (task + 1) * task_);
    for (int64_t begin = task * task_; begin < end;) {
      int64_t n = std::min(block_, end - begin);
      for (const int64_t p : long_periods_) n = std::min(n, p - begin % p);
      run_block(s, begin, n);
      begin += n;
    }
  });
}

}  // namespace megatron::cpu
