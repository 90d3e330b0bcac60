// Element-wise ops. A gradient of lower rank than its value broadcasts like any operand.
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

using G = GradientScope;

ValueId times(G& s, ValueId a, ValueId b) { return s.emit1("mul", {a, b}); }

void add_gradient(G& s) {
  for (size_t i = 0; i < 2; ++i) {
    if (s.needs(i)) s.set(i, s.broadcast_grad(0));
  }
}
void sub_gradient(G& s) {
  if (s.needs(0)) s.set(0, s.broadcast_grad(0));
  if (s.needs(1)) s.set(1, s.emit1("neg", {s.broadcast_grad(0)}));
}
void mul_gradient(G& s) {
  const ValueId g = s.broadcast_grad(0);
  if (s.needs(0)) s.set(0, times(s, g, s.in(1)));
  if (s.needs(1)) s.set(1, times(s, g, s.in(0)));
}
void div_gradient(G& s) {
  const ValueId g = s.broadcast_grad(0);
  if (s.needs(0)) s.set(0, s.emit1("div", {g, s.in(1)}));
  if (s.needs(1)) s.set(1, s.emit1("neg", {s.emit1("div", {times(s, g, s.out(0)), s.in(1)})}));
}
// d a^b / da = b a^(b-1); the exponent itself gets no gradient unless asked for.
void pow_gradient(G& s) {
  const ValueId g = s.broadcast_grad(0);
  if (s.needs(0)) {
    const ValueId less = s.emit1("pow", {s.in(0), s.emit1("sub", {s.in(1), s.constant(1)})});
    s.set(0, times(s, g, times(s, s.in(1), less)));
  }
  if (s.needs(1)) s.set(1, times(s, g, times(s, s.out(0), s.emit1("log", {s.in(0)}))));
}
void maximum_gradient(G& s) {
  const ValueId g = s.broadcast_grad(0);
  if (s.needs(0)) s.set(0, times(s, g, s.emit1("greater", {s.in(0), s.in(1)})));
  if (s.needs(1)) s.set(1, times(s, g, s.emit1("greater", {s.in(1), s.in(0)})));
}
void minimum_gradient(G& s) {
  const ValueId g = s.broadcast_grad(0);
  if (s.needs(0)) s.set(0, times(s, g, s.emit1("greater", {s.in(1), s.in(0)})));
  if (s.needs(1)) s.set(1, times(s, g, s.emit1("greater", {s.in(0), s.in(1)})));
}
void neg_gradient(G& s) { s.set(0, s.emit1("neg", {s.broadcast_grad(0)})); }
void square_gradient(G& s) {
  s.set(0, times(s, s.broadcast_grad(0), times(s, s.in(0), s.constant(2))));
}
void sqrt_gradient(G& s) {
  s.set(0, s.emit1("div", {times(s, s.broadcast_grad(0), s.constant(0.5)), s.out(0)}));
}
void rsqrt_gradient(G& s) {
  const ValueId cube = times(s, s.emit1("square", {s.out(0)}), s.out(0));
  s.set(0, times(s, times(s, s.broadcast_grad(0), s.constant(-0.5)), cube));
}
void exp_gradient(G& s) { s.set(0, times(s, s.broadcast_grad(0), s.out(0))); }
void log_gradient(G& s) { s.set(0, s.emit1("div", {s.broadcast_grad(0), s.in(0)})); }
void tanh_gradient(G& s) {
  const ValueId slope = s.emit1("sub", {s.constant(1), s.emit1("square", {s.out(0)})});
  s.set(0, times(s, s.broadcast_grad(0), slope));
}
void gelu_gradient(G& s) { s.set(0, s.emit1("gelu_grad", {s.in(0), s.broadcast_grad(0)})); }
// The mask is drawn again from the same coordinates.
void dropout_gradient(G& s) { s.set(0, s.emit1("dropout", {s.grad(0)}, s.node().attrs)); }

}  // namespace

void add_elementwise_ops(std::vector<OpDef>& table) {
  table.push_back({.name = "add", .arity = 2, .jointly_linear = true, .gradient = add_gradient});
  table.push_back({.name = "sub", .arity = 2, .jointly_linear = true, .gradient = sub_gradient});
  table.push_back({.name = "mul", .arity = 2, .linear = 0b11, .gradient = mul_gradient});
  table.push_back({.name = "div", .arity = 2, .linear = 0b01, .gradient = div_gradient});
  table.push_back({.name = "pow", .arity = 2, .gradient = pow_gradient});
  table.push_back({.name = "maximum", .arity = 2, .gradient = maximum_gradient});
  table.push_back({.name = "minimum", .arity = 2, .gradient = minimum_gradient});
  table.push_back({.name = "greater", .arity = 2});
  table.push_back({.name = "neg", .linear = 0b1, .gradient = neg_gradient});
  table.push_back({.name = "square", .gradient = square_gradient});
  table.push_back({.name = "sqrt", .gradient = sqrt_gradient});
  table.push_back({.name = "rsqrt", .gradient = rsqrt_gradient});
  table.push_back({.name = "exp", .gradient = exp_gradient});
  table.push_back({.name = "log", .gradient = log_gradient});
  table.push_back({.name = "tanh", .gradient = tanh_gradient});
  table.push_back({.name = "gelu", .gradient = gelu_gradient});
  table.push_back({.name = "gelu_grad", .arity = 2, .linear = 0b10});
  table.push_back({.name = "dropout",
                   .attrs = {{"p", AttrKind::floating}, {"site", AttrKind::string}},
                   .linear = 0b1,
                   .gradient = dropout_gradient});
}

}  // namespace megatron::graph
