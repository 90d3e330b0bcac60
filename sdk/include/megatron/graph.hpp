// Writing programs: Value and Builder over the host's builder table, and the ops as functions.
// Shapes are in the comments as [batch, seq, hidden]; every op is described in docs/ops.md. A wrong
// shape throws StatusError with the op, the scope and both shapes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megatron/abi/graph.h"
#include "megatron/dtype.hpp"
#include "megatron/status.hpp"

namespace megatron {

class Builder;

// A tensor or scalar of the program being written.
struct Value {
  const mgt_builder* builder = nullptr;
  mgt_value id = 0;
};

struct Axis {
  std::string_view name;
  int64_t size;
};

struct Init {
  mgt_init_kind kind = MGT_INIT_ZEROS;
  double a = 0;
  double b = 0;
  static Init zeros() { return {}; }
  static Init ones() { return {MGT_INIT_ONES, 0, 0}; }
  static Init normal(double stddev, double mean = 0) { return {MGT_INIT_NORMAL, mean, stddev}; }
};

struct Attr : mgt_attr {
  Attr(std::string_view key, int64_t v) : Attr(key, MGT_ATTR_INT) { i = v; }
  Attr(std::string_view key, int v) : Attr(key, int64_t{v}) {}
  Attr(std::string_view key, bool v) : Attr(key, int64_t{v}) {}
  Attr(std::string_view key, double v) : Attr(key, MGT_ATTR_FLOAT) { f = v; }
  Attr(std::string_view key, std::string_view v) : Attr(key, MGT_ATTR_STRING) { s = to_abi(v); }
  Attr(std::string_view key, const char* v) : Attr(key, std::string_view(v)) {}

 private:
  Attr(std::string_view key, mgt_attr_type t) : mgt_attr{} {
    name = to_abi(key);
    type = t;
  }
};

class Builder {
 public:
  explicit Builder(const mgt_builder* table) : table_(table) {}

  Value parameter(std::string_view name, std::initializer_list<Axis> dims, Init init,
                  uint32_t flags = 0) const {
    const auto abi_dims = to_dims(dims);
    mgt_parameter_desc desc;
    MGT_INIT(&desc);
    desc.flags = flags;
    desc.name = to_abi(name);
    desc.dtype = MGT_DTYPE_F32;
    desc.init = init.kind;
    desc.init_a = init.a;
    desc.init_b = init.b;
    desc.dims = abi_dims.data();
    desc.rank = static_cast<uint32_t>(abi_dims.size());
    Value v{table_, 0};
    check(table_->parameter(table_->context, &desc, &v.id));
    return v;
  }
  Value input(std::string_view name, DType dtype, std::initializer_list<Axis> dims) const {
    const auto abi_dims = to_dims(dims);
    mgt_input_desc desc;
    MGT_INIT(&desc);
    desc.name = to_abi(name);
    desc.dtype = static_cast<mgt_dtype>(dtype);
    desc.dims = abi_dims.data();
    desc.rank = static_cast<uint32_t>(abi_dims.size());
    Value v{table_, 0};
    check(table_->input(table_->context, &desc, &v.id));
    return v;
  }
  Value scalar(std::string_view name) const {
    Value v{table_, 0};
    check(table_->scalar(table_->context, to_abi(name), &v.id));
    return v;
  }
  Value constant(double value) const {
    Value v{table_, 0};
    check(table_->constant(table_->context, value, &v.id));
    return v;
  }
  // Any op by name, custom ones too.
  std::vector<Value> op(std::string_view name, std::initializer_list<Value> inputs,
                        std::initializer_list<Attr> attrs = {}, size_t outputs = 1) const {
    std::vector<mgt_value> in;
    for (const auto& v : inputs) in.push_back(v.id);
    std::vector<mgt_attr> abi_attrs(attrs.begin(), attrs.end());
    std::vector<mgt_value> out(outputs);
    check(table_->op(table_->context, to_abi(name), in.data(), in.size(), abi_attrs.data(),
                     abi_attrs.size(), out.data(), out.size()));
    std::vector<Value> values;
    for (const auto id : out) values.push_back({table_, id});
    return values;
  }
  Value op1(std::string_view name, std::initializer_list<Value> inputs,
            std::initializer_list<Attr> attrs = {}) const {
    return op(name, inputs, attrs, 1)[0];
  }
  void output(std::string_view name, Value value) const {
    check(table_->output(table_->context, to_abi(name), value.id));
  }
  void loss(std::string_view name, Value sum, Value count, double weight = 1.0) const {
    check(table_->loss(table_->context, to_abi(name), sum.id, count.id, weight));
  }
  int64_t dim(Value value, uint32_t index) const {
    mgt_value_desc desc;
    MGT_INIT(&desc);
    check(table_->describe(table_->context, value.id, &desc));
    MGT_CHECK(index < desc.rank);
    return desc.dims[index].size;
  }

  // RAII: `auto scope = b.scope("mlp");`
  class [[nodiscard]] Scope {
   public:
    Scope(const mgt_builder* table, bool block) : table_(table), block_(block) {}
    Scope(Scope&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), block_(other.block_) {}
    Scope& operator=(Scope&&) = delete;
    ~Scope() {
      if (table_ == nullptr) return;
      auto* status =
          block_ ? table_->end_block(table_->context) : table_->pop_scope(table_->context);
      if (status != nullptr) status->release(status);
    }

   private:
    const mgt_builder* table_;
    bool block_;
  };
  Scope scope(std::string_view name) const {
    check(table_->push_scope(table_->context, to_abi(name)));
    return {table_, false};
  }
  // A repeated layer: the unit of pipeline cuts and of recomputation.
  Scope block(int64_t index) const {
    check(table_->begin_block(table_->context, index));
    return {table_, true};
  }

 private:
  static std::vector<mgt_dim> to_dims(std::initializer_list<Axis> axes) {
    std::vector<mgt_dim> dims;
    for (const auto& a : axes) dims.push_back({to_abi(a.name), a.size});
    return dims;
  }
  static void check(mgt_status* status) { throw_if_error(from_abi(status, "the host")); }
  const mgt_builder* table_;
};

// ---- ops as functions
// --------------------------------------------------------------------------------

namespace ops {

inline Value one(std::string_view name, std::initializer_list<Value> in,
                 std::initializer_list<Attr> attrs = {}) {
  return Builder(in.begin()->builder).op1(name, in, attrs);
}

// x[M..., K...] · w[N..., K...] -> [M..., N...]; `contract` trailing dimensions are summed.
inline Value linear(Value x, Value w, int64_t contract = 1) {
  return one("linear", {x, w}, {{"contract", contract}});
}
// ids[M...] i32, table[vocab, K...] -> [M..., K...]
inline Value embedding(Value ids, Value table) { return one("embedding", {ids, table}); }
// x[M..., k], gain[k], bias[k] -> [M..., k] (Ba et al. 2016, arXiv:1607.06450)
inline Value layer_norm(Value x, Value gain, Value bias, double epsilon) {
  return Builder(x.builder).op("layer_norm", {x, gain, bias}, {{"epsilon", epsilon}}, 3)[0];
}
// q[batch, seq, heads, head_dim], k and v[batch, kv_seq, kv_heads, head_dim] -> as q.
// softmax(scale · q·kᵀ) v, causal when asked; `dropout` acts on the probabilities.
inline Value attention(Value q, Value k, Value v, bool causal, double scale, double dropout = 0,
                       std::string_view site = {}) {
  return Builder(q.builder).op(
      "attention", {q, k, v},
      {{"causal", causal}, {"scale", scale}, {"dropout", dropout}, {"site", site}}, 2)[0];
}
// Inverted dropout; `site` names the random stream and must be unique in the model.
inline Value dropout(Value x, double p, std::string_view site) {
  return p == 0 ? x : one("dropout", {x}, {{"p", p}, {"site", site}});
}
// Cross entropy of linear(x, w) without storing the logits. x[M..., k], w[vocab, k], labels[M...]
// i32, mask[M...] f32 -> (sum over M of mask · loss, sum over M of mask), both rank 0.
struct Loss {
  Value sum;
  Value count;
};
inline Loss linear_cross_entropy(Value x, Value w, Value labels, Value mask) {
  const Builder b(x.builder);
  const auto stats = b.op("linear_cross_entropy", {x, w, labels}, {}, 2);  // lse, target logit
  const auto loss = one("mul", {one("sub", {stats[0], stats[1]}), mask});
  return {one("sum", {loss}), one("sum", {mask})};
}

// Element-wise, with the dimensions of the smaller operand aligned to the last ones of the larger.
inline Value add(Value a, Value b) { return one("add", {a, b}); }
inline Value sub(Value a, Value b) { return one("sub", {a, b}); }
inline Value mul(Value a, Value b) { return one("mul", {a, b}); }
inline Value div(Value a, Value b) { return one("div", {a, b}); }
inline Value pow(Value a, Value b) { return one("pow", {a, b}); }
inline Value sqrt(Value a) { return one("sqrt", {a}); }
// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016, arXiv:1606.08415)
inline Value gelu(Value a) { return one("gelu", {a}); }

}  // namespace ops

inline Value operator+(Value a, Value b) { return ops::add(a, b); }
inline Value operator-(Value a, Value b) { return ops::sub(a, b); }
inline Value operator*(Value a, Value b) { return ops::mul(a, b); }
inline Value operator/(Value a, Value b) { return ops::div(a, b); }
inline Value operator+(Value a, double b) { return a + Builder(a.builder).constant(b); }
inline Value operator*(Value a, double b) { return a * Builder(a.builder).constant(b); }
inline Value operator+(double a, Value b) { return Builder(b.builder).constant(a) + b; }
inline Value operator-(double a, Value b) { return Builder(b.builder).constant(a) - b; }
inline Value operator*(double a, Value b) { return Builder(b.builder).constant(a) * b; }

}  // namespace megatron
