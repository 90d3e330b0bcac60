#include "unit/devices/run_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEGATRON_POISONS_GUARDS
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define MEGATRON_POISONS_GUARDS
#endif
#ifdef MEGATRON_POISONS_GUARDS
#include <sanitizer/asan_interface.h>
#endif

namespace megatron::cpu::testing {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0xA5;
constexpr unsigned char kNaN = 0xFF;  // four of them are a NaN, eight as well

template <class T>
void write_as(void* to, const Values& values) {
  std::transform(values.begin(), values.end(), static_cast<T*>(to),
                 [](double v) { return static_cast<T>(v); });
}
void write(void* to, const Values& values, DType dtype) {
  if (dtype == DType::f32) return write_as<float>(to, values);
  MGT_CHECK(dtype == DType::i32, "cases hold f32 and i32");
  write_as<int32_t>(to, values);
}

template <class T>
Values read_as(const void* from, int64_t n) {
  const auto* begin = static_cast<const T*>(from);
  return Values(begin, begin + n);
}
Values read(const void* from, const TensorDesc& t) {
  return t.dtype == DType::f32 ? read_as<float>(from, t.elements())
                               : read_as<int32_t>(from, t.elements());
}

}  // namespace

GuardedMemory::GuardedMemory(size_t bytes, size_t alignment, unsigned char fill)
    : storage_(bytes + 2 * kGuardBytes + 2 * alignment, kGuard), bytes_(bytes) {
  auto at = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
  at = (at + 2 * alignment - 1) / (2 * alignment) * (2 * alignment);
  if (at >= reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes + alignment) {
    at -= alignment;
  } else {
    at += alignment;
  }
  data_ = reinterpret_cast<unsigned char*>(at);
  std::fill_n(data_, bytes, fill);
#ifdef MEGATRON_POISONS_GUARDS
  // Then a read outside is an error too.
  unsigned char* end = storage_.data() + storage_.size();
  ASAN_POISON_MEMORY_REGION(data_ + bytes, static_cast<size_t>(end - (data_ + bytes)));
#endif
}

GuardedMemory::~GuardedMemory() {
#ifdef MEGATRON_POISONS_GUARDS
  ASAN_UNPOISON_MEMORY_REGION(storage_.data(), storage_.size());
#endif
}

bool GuardedMemory::intact() const {
#ifdef MEGATRON_POISONS_GUARDS
  ASAN_UNPOISON_MEMORY_REGION(storage_.data(), storage_.size());
#endif
  const auto untouched = [](unsigned char c) { return c == kGuard; };
  const unsigned char* begin = storage_.data();
  return std::all_of(begin, static_cast<const unsigned char*>(data_), untouched) &&
         std::all_of(static_cast<const unsigned char*>(data_) + bytes_, begin + storage_.size(),
                     untouched);
}

PreparedCase::PreparedCase(const OpCase& op_case, std::string_view implementation, const Host& host)
    : case_(op_case), kernel_(prepare_kernel(op_case.desc, host, implementation)) {
  const KernelDesc& d = case_.desc;
  for (size_t i = 0; i < d.inputs.size(); ++i) {
    const auto& t = d.inputs[i];
    inputs_.push_back(
        std::make_unique<GuardedMemory>(static_cast<size_t>(t.bytes()), dtype_size(t.dtype), kNaN));
    input_pointers_.push_back(inputs_.back()->data());
  }
  for (size_t o = 0; o < d.outputs.size(); ++o) {
    if (o == 0 && case_.in_place >= 0) {
      output_pointers_.push_back(input_pointers_[static_cast<size_t>(case_.in_place)]);
      outputs_.push_back(nullptr);
      continue;
    }
    const auto& t = d.outputs[o];
    outputs_.push_back(
        std::make_unique<GuardedMemory>(static_cast<size_t>(t.bytes()), dtype_size(t.dtype), kNaN));
    output_pointers_.push_back(outputs_.back()->data());
  }
  workspace_ = std::make_unique<GuardedMemory>(kernel_->workspace_bytes(), 64, kNaN);
  reset();
}

void PreparedCase::reset() {
  for (size_t i = 0; i < case_.inputs.size(); ++i) {
    write(input_pointers_[i], case_.inputs[i], case_.desc.inputs[i].dtype);
  }
  for (size_t o = 0; o < case_.desc.outputs.size(); ++o) {
    if (case_.adds(o)) write(output_pointers_[o], case_.before[o], case_.desc.outputs[o].dtype);
  }
}

void PreparedCase::launch() {
  mgt_launch abi;
  MGT_INIT(&abi);
  abi.inputs = input_pointers_.data();
  abi.outputs = output_pointers_.data();
  abi.scalars = case_.scalars.data();
  abi.workspace = workspace_->data();
  abi.rng = &case_.rng;
  kernel_->launch(Launch(abi));
}

std::vector<Values> PreparedCase::outputs() const {
  std::vector<Values> out;
  for (size_t o = 0; o < output_pointers_.size(); ++o) {
    out.push_back(read(output_pointers_[o], case_.desc.outputs[o]));
  }
  return out;
}

bool PreparedCase::guards_intact() const {
  const auto intact = [](const auto& m) { return m == nullptr || m->intact(); };
  return std::all_of(inputs_.begin(), inputs_.end(), intact) &&
         std::all_of(outputs_.begin(), outputs_.end(), intact) && intact(workspace_);
}

std::vector<Values> run(const OpCase& op_case, std::string_view implementation, const Host& host) {
  PreparedCase prepared(op_case, implementation, host);
  prepared.launch();
  EXPECT_TRUE(prepared.guards_intact()) << op_case.name << ", " << implementation;
  return prepared.outputs();
}

bool same_bits(const std::vector<Values>& a, const std::vector<Values>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Values& x, const Values& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0);
  });
}

bool has_implementation(std::string_view op, std::string_view implementation) {
  const auto rows = op_rows();
  const auto row = std::ranges::find(rows, op, &OpRow::op);
  return row != rows.end() && std::ranges::any_of(row->implementations, [&](const auto& i) {
           return i.name == implementation;
         });
}

}  // namespace megatron::cpu::testing
