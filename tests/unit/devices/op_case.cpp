#include "unit/devices/op_case.hpp"

#include "megatron/philox.hpp"

namespace megatron::cpu::testing {

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> cases;
    add_product_cases(cases);
    add_embedding_cases(cases);
    add_norm_cases(cases);
    add_reduction_cases(cases);
    add_attention_cases(cases);
    add_loss_cases(cases);
    add_movement_cases(cases);
    add_elementwise_cases(cases);
    add_chain_cases(cases);
    return cases;
  }();
  return all;
}

CaseWriter::CaseWriter(std::string_view op, std::string_view variant) {
  case_.name = text(op, "/", variant);
  case_.desc.op = op;
  random_.seed(static_cast<uint32_t>(site_of(case_.name)));
}

CaseWriter& CaseWriter::attr(std::string_view name, KernelAttr value) {
  case_.desc.attrs[std::string(name)] = std::move(value);
  return *this;
}

CaseWriter& CaseWriter::input(TensorDesc t, double low, double high) {
  std::uniform_real_distribution<double> uniform(low, high);
  Values values(static_cast<size_t>(t.elements()));
  for (double& v : values) v = static_cast<double>(static_cast<float>(uniform(random_)));
  return input(std::move(t), std::move(values));
}

CaseWriter& CaseWriter::input(TensorDesc t, Values values) {
  MGT_CHECK(static_cast<int64_t>(values.size()) == t.elements(), case_.name);
  case_.desc.inputs.push_back(std::move(t));
  case_.inputs.push_back(std::move(values));
  return *this;
}

CaseWriter& CaseWriter::ids(TensorDesc t, int64_t low, int64_t high) {
  std::uniform_int_distribution<int64_t> uniform(low, high - 1);
  Values values(static_cast<size_t>(t.elements()));
  for (double& v : values) v = static_cast<double>(uniform(random_));
  return input(std::move(t), std::move(values));
}

CaseWriter& CaseWriter::output(TensorDesc t) {
  case_.desc.outputs.push_back(std::move(t));
  case_.before.emplace_back();
  return *this;
}

CaseWriter& CaseWriter::accumulates() {
  const size_t o = case_.desc.outputs.size() - 1;
  case_.desc.accumulate_mask |= uint64_t{1} << o;
  std::uniform_real_distribution<float> uniform(-1, 1);
  case_.before[o].resize(static_cast<size_t>(case_.desc.outputs[o].elements()));
  for (double& v : case_.before[o]) v = static_cast<double>(uniform(random_));
  return *this;
}

CaseWriter& CaseWriter::scalar(double value) {
  case_.scalars.push_back(value);
  case_.desc.scalar_count = case_.scalars.size();
  return *this;
}

CaseWriter& CaseWriter::in_place(int input) {
  case_.in_place = input;
  return *this;
}

OpCase CaseWriter::formula(Formula f) {
  case_.formula = std::move(f);
  return std::move(case_);
}

TensorDesc f32(std::vector<int64_t> dims) { return {DType::f32, std::move(dims)}; }
TensorDesc mapped(std::vector<IndexMap> maps) { return {DType::f32, std::move(maps)}; }
TensorDesc i32(std::vector<int64_t> dims) { return {DType::i32, std::move(dims)}; }

IndexMap piece(int64_t global, int64_t begin, int64_t held, int64_t padding) {
  return IndexMap(global, held + padding, {{0, begin, held}});
}

std::vector<int64_t> unravel(const TensorDesc& t, int64_t e) {
  std::vector<int64_t> index(t.rank());
  for (size_t d = t.rank(); d-- > 0; e /= t.dims[d]) index[d] = e % t.dims[d];
  return index;
}

int64_t ravel(const TensorDesc& t, const std::vector<int64_t>& index) {
  int64_t e = 0;
  for (size_t d = 0; d < t.rank(); ++d) e = e * t.dims[d] + index[d];
  return e;
}

}  // namespace megatron::cpu::testing
