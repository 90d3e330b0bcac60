// A description that no kernel can serve is refused by name when it is prepared: an operand too few
// or too many, one of another size or element type, an attribute that is missing or of another
// kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "elementwise/expression.hpp"
#include "unit/devices/pool_host.hpp"
#include "unit/devices/run_case.hpp"

namespace megatron::cpu::testing {
namespace {

// The message; "" when the kernel could be prepared.
std::string refusal(const KernelDesc& desc, std::string_view implementation) {
  static const PoolHost pool(1);
  try {
    (void)prepare_kernel(desc, pool.host(), implementation);
    return "";
  } catch (const StatusError& e) {
    return std::string(e.status().message());
  }
}

struct Mistake {
  std::string what;
  KernelDesc desc;
};

// Every way to spoil one operand of a description.
std::vector<Mistake> mistakes(const KernelDesc& right) {
  std::vector<Mistake> out;
  const auto add = [&](std::string what, const std::function<void(KernelDesc&)>& spoil) {
    out.push_back({std::move(what), right});
    spoil(out.back().desc);
  };
  using Tensors = std::vector<TensorDesc> KernelDesc::*;
  for (const auto& operands : {std::pair<std::string_view, Tensors>{"input", &KernelDesc::inputs},
                               {"output", &KernelDesc::outputs}}) {
    const std::string_view side = operands.first;
    const Tensors tensors = operands.second;
    for (size_t i = 0; i < (right.*tensors).size(); ++i) {
      const auto at = text(side, " ", i);
      const TensorDesc& t = (right.*tensors)[i];
      add(text(at, " missing"), [&](KernelDesc& d) {
        (d.*tensors).erase((d.*tensors).begin() + static_cast<std::ptrdiff_t>(i));
      });
      add(text(at, " of another element type"), [&](KernelDesc& d) {
        (d.*tensors)[i].dtype = t.dtype == DType::f32 ? DType::i32 : DType::f32;
      });
      for (size_t dim = 0; dim < t.rank(); ++dim) {
        add(text(at, " dimension ", dim, " larger"), [&](KernelDesc& d) {
          auto maps = t.maps;
          maps[dim] = IndexMap::identity(t.dims[dim] + 1);
          (d.*tensors)[i] = TensorDesc(t.dtype, maps);
        });
      }
      if (t.rank() > 0) {
        add(text(at, " of rank 0"),
            [&](KernelDesc& d) { (d.*tensors)[i] = TensorDesc(t.dtype, std::vector<int64_t>{}); });
      }
      add(text(at, " with a dimension more"), [&](KernelDesc& d) {
        auto dims = t.dims;
        dims.insert(dims.begin(), 2);
        (d.*tensors)[i] = TensorDesc(t.dtype, dims);
      });
    }
    add(text("one ", side, " more"), [&](KernelDesc& d) { (d.*tensors).push_back(f32({3})); });
  }
  return out;
}

// What is no mistake: sums over any leading dimensions, tables and vocabularies of any size,
// operands that broadcast, and operands that give their shape alone.
bool is_allowed(const OpCase& c, std::string_view what) {
  const auto& op = c.desc.op;
  const bool elementwise = op == "fused" || find_element_op(op) != nullptr;
  return ((op == "sum" || op == "sum_squares") && what.starts_with("input 0 ") &&
          !what.ends_with("type") && !what.ends_with("missing")) ||
         (elementwise && c.inputs.size() > 1 && what.ends_with("of rank 0")) ||
         (op == "embedding" && what == "input 1 dimension 0 larger") ||
         (op == "embedding_grad" && what == "output 0 dimension 0 larger") ||
         (op == "linear_cross_entropy" && what == "input 1 dimension 0 larger") ||
         (op == "expand" && what.ends_with("of another element type")) ||
         (op == "unflatten" && what.starts_with("input 0 dimension")) ||
         // A dimension may grow into the padding of its parts.
         ((op == "slice" || op == "stack") && what.starts_with("input 0 dimension")) ||
         (op == "unstack" && what.starts_with("output 0 dimension")) ||
         (op == "slice" && !c.desc.attrs.contains("parts") && what.ends_with("larger"));
}

class PrepareErrorsTest : public ::testing::TestWithParam<const OpRow*> {};

TEST_P(PrepareErrorsTest, NameTheOp) {
  for (const OpCase& c : op_cases()) {
    if (c.desc.op != GetParam()->op || c.inputs.empty()) continue;
    int64_t elements = 0;
    for (const auto& t : c.desc.inputs) elements += t.elements();
    if (elements > 2000 || elements < 20) continue;  // dimensions of 1 and 0 hide mistakes
    for (const auto& m : mistakes(c.desc)) {
      if (is_allowed(c, m.what)) continue;
      for (const auto& implementation : GetParam()->implementations) {
        SCOPED_TRACE(text(c.name, ", ", implementation.name, ": ", m.what));
        const std::string message = refusal(m.desc, implementation.name);
        if (message.empty()) {
          ADD_FAILURE() << "prepared";
          continue;
        }
        EXPECT_NE(message.find(text("op '", c.desc.op, "'")), std::string::npos) << message;
      }
    }
  }
}

KernelDesc described(std::string_view op, KernelAttrs attrs, std::vector<TensorDesc> inputs,
                     TensorDesc output) {
  KernelDesc d;
  d.op = op;
  d.attrs = std::move(attrs);
  d.inputs = std::move(inputs);
  d.outputs = {std::move(output)};
  return d;
}

TEST(PrepareErrors, SayWhatIsWrong) {
  const auto linear = [](KernelAttr contract, DType dtype = DType::f32) {
    return described("linear", {{"contract", std::move(contract)}},
                     {TensorDesc(dtype, std::vector<int64_t>{4, 3}), f32({2, 3})}, f32({4, 2}));
  };
  const auto fused = [](std::string_view expr) {
    return described("fused", {{"expr", std::string(expr)}}, {f32({4})}, f32({4}));
  };
  const auto slice = [](int64_t parts, int64_t index) {
    return described("slice", {{"dim", int64_t{0}}, {"parts", parts}, {"index", index}}, {f32({4})},
                     f32({2}));
  };
  const struct {
    KernelDesc desc;
    std::string_view fact, cause;  // the first two lines
  } mistakes[] = {
      {described("convolution", {}, {f32({4})}, f32({4})),
       "device 'cpu' has no kernel for op 'convolution'", "the op is not in the device's table"},
      {linear(int64_t{2}), "op 'linear' cannot be prepared for (f32[4, 3], f32[2, 3]) -> f32[4, 2]",
       "the operands do not fit MK,NK->MN: 'K' has two sizes"},
      {linear(int64_t{-1}),
       "op 'linear' cannot be prepared for (f32[4, 3], f32[2, 3]) -> f32[4, 2]",
       "'contract' = -1 is negative"},
      {linear(std::string("1")), "attribute 'contract' of op 'linear' has the wrong type",
       "it is read as another kind of value"},
      {linear(int64_t{1}, DType::bf16),
       "no implementation of op 'linear' takes (bf16[4, 3], f32[2, 3])",
       "'vectorised' declined: input 0 is bf16, it takes f32; "
       "'reference' declined: input 0 is bf16, it takes f32"},
      {described("dropout", {{"p", 1.0}}, {f32({4})}, f32({4})),
       "op 'dropout' cannot be prepared for (f32[4]) -> f32[4]", "dropout 1 is not in [0, 1)"},
      {slice(0, 0), "op 'slice' cannot be prepared for (f32[4]) -> f32[2]",
       "a dimension cannot be cut into 0 parts"},
      {slice(2, 2), "op 'slice' cannot be prepared for (f32[4]) -> f32[2]",
       "part 2 of 2 is asked for"},
      {slice(3, -1), "op 'slice' cannot be prepared for (f32[4]) -> f32[2]",
       "part -1 of 3 is asked for"},
      {described("add", {}, {f32({4})}, f32({4})),
       "op 'add' cannot be prepared for (f32[4]) -> f32[4]",
       "it has 1 operands and the op takes 2"},
      {described("exp", {}, {f32({4})}, f32({2, 4})),
       "op 'exp' cannot be prepared for (f32[4]) -> f32[2, 4]",
       "no operand has the shape of the result"},
      {fused(""), "op 'fused' cannot be prepared for (f32[4]) -> f32[4]",
       "the attribute 'expr' is missing or empty"},
      {fused("t0 = exp(i1); out t0"),
       "op 'fused' cannot read its expression 't0 = exp(i1); out t0' at character 11",
       "'i1' does not exist; there are 1"},
  };
  for (const auto& m : mistakes) {
    EXPECT_THAT(refusal(m.desc, ""),
                ::testing::StartsWith(text(m.fact, "\n  ", m.cause, "\n  fix: ")));
  }
  for (const std::string_view expr :
       {"t0 = cosh(i0); out t0", "t0 = exp(t0); out t0", "t0 = exp(i0)", "t0 = exp(i0); out t0 t0",
        "t1 = exp(i0); out t1", "t0 = add(i0); out t0", "t0 = exp(i0); out t0 and more",
        "t0 = dropout(i0) {p = 2}; out t0", "t0 = exp(s0); out t0", "out t0", "t0 = exp("}) {
    EXPECT_THAT(refusal(fused(expr), ""), ::testing::StartsWith("op 'fused' ")) << expr;
  }
}

std::vector<const OpRow*> rows() {
  std::vector<const OpRow*> out;
  for (const auto& row : op_rows()) out.push_back(&row);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, PrepareErrorsTest, ::testing::ValuesIn(rows()),
                         [](const auto& row) { return std::string(row.param->op); });

}  // namespace
}  // namespace megatron::cpu::testing
