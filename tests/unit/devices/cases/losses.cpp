// Cross entropy of a linear layer from a matrix of logits; its gradients by matrices of dlogits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/devices/op_case.hpp"

namespace megatron::cpu::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sizes {
  int64_t rows, k, v;

  static Sizes of(const OpCase& c) {
    const auto& w = c.desc.inputs[1];
    return {static_cast<int64_t>(c.inputs[2].size()), w.dims[1], w.dims[0]};
  }
};

// [rows, v]; −inf in columns that are padding.
Values logits(const OpCase& c) {
  const auto [rows, k, v] = Sizes::of(c);
  Values out(static_cast<size_t>(rows * v), -kInfinity);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < v; ++j) {
      if (c.desc.inputs[1].global_index(0, j) < 0) continue;
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += c.inputs[0][static_cast<size_t>(r * k + i)] *
               c.inputs[1][static_cast<size_t>(j * k + i)];
      }
      out[static_cast<size_t>(r * v + j)] = sum;
    }
  }
  return out;
}

int64_t label_column(const OpCase& c, int64_t row) {
  return c.desc.inputs[1].maps[0].local(
      static_cast<int64_t>(c.inputs[2][static_cast<size_t>(row)]));
}

std::vector<Values> statistics(const OpCase& c) {
  const auto [rows, k, v] = Sizes::of(c);
  const Values z = logits(c);
  Values lse, target;
  for (int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (int64_t j = 0; j < v; ++j) total += std::exp(z[static_cast<size_t>(r * v + j)]);
    lse.push_back(std::log(total));
    const int64_t at = label_column(c, r);
    target.push_back(at < 0 ? 0 : z[static_cast<size_t>(r * v + at)]);
  }
  return {lse, target};
}

std::vector<Values> gradients(const OpCase& c, const Values& lse, size_t dlse, size_t dw_output) {
  const auto [rows, k, v] = Sizes::of(c);
  const Values z = logits(c);
  Values dx(static_cast<size_t>(rows * k), 0.0);
  Values dw = c.adds(dw_output) ? c.before[dw_output] : Values(static_cast<size_t>(v * k), 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < v; ++j) {
      const auto row = static_cast<size_t>(r);
      double d = c.inputs[dlse][row] * std::exp(z[static_cast<size_t>(r * v + j)] - lse[row]);
      if (j == label_column(c, r)) d += c.inputs[dlse + 1][row];
      if (z[static_cast<size_t>(r * v + j)] == -kInfinity) continue;
      for (int64_t i = 0; i < k; ++i) {
        dx[static_cast<size_t>(r * k + i)] += d * c.inputs[1][static_cast<size_t>(j * k + i)];
        dw[static_cast<size_t>(j * k + i)] += d * c.inputs[0][static_cast<size_t>(r * k + i)];
      }
    }
  }
  return {dx, dw};
}

std::vector<Values> train(const OpCase& c) {
  auto out = statistics(c);
  for (auto& g : gradients(c, out[0], 3, 3)) out.push_back(std::move(g));
  return out;
}

struct Shape {
  std::string_view name;
  std::vector<int64_t> rows;
  int64_t k;
  IndexMap vocab;
};

void add_shape(std::vector<OpCase>& cases, const Shape& s) {
  std::vector<int64_t> x_dims = s.rows;
  x_dims.push_back(s.k);
  const auto x = f32(x_dims), rows = f32(s.rows);
  const auto w = mapped({s.vocab, IndexMap::identity(s.k)});
  // Logits of a few units whatever k is: exp of much more would be all that a tolerance sees.
  const double scale = 2 * std::min(1.0, std::sqrt(8.0 / static_cast<double>(s.k)));
  const auto with_operands = [&](std::string_view op, std::string_view end) {
    CaseWriter out(op, text(s.name, end));
    out.input(x, -scale, scale).input(w, -scale, scale).ids(i32(s.rows), 0, s.vocab.global_size());
    return out;
  };
  cases.push_back(
      with_operands("linear_cross_entropy", "").output(rows).output(rows).formula(statistics));
  for (const std::string_view end : {"", "_add", "_overwrite"}) {
    auto grad = with_operands("linear_cross_entropy_grad", end);
    grad.input(rows, 1, 3).input(rows).input(rows).output(x).output(w);
    auto both = with_operands("linear_cross_entropy_train", end);
    both.input(rows).input(rows).output(rows).output(rows).output(x).output(w);
    if (!end.empty()) {
      grad.accumulates().scalar(end == "_add" ? 1 : 0);
      both.accumulates().scalar(end == "_add" ? 1 : 0);
    }
    cases.push_back(grad.formula([](const OpCase& c) { return gradients(c, c.inputs[3], 4, 1); }));
    cases.push_back(both.formula(train));
  }
}

}  // namespace

void add_loss_cases(std::vector<OpCase>& cases) {
  const Shape shapes[] = {
      {"one", {1}, 1, IndexMap::identity(1)},
      {"odd", {2, 5}, 3, IndexMap::identity(11)},
      {"offset", {7}, 5, piece(20, 6, 7)},
      {"padding", {9}, 4, piece(21, 14, 7, 3)},
      {"two_chunks", {17}, 8, IndexMap::identity(32).cut(Cut::balanced, 2, 1)},
      {"two_chunks_padding", {6}, 8, IndexMap(30, 12, {{1, 3, 4}, {7, 20, 3}})},
      {"large", {90}, 40, IndexMap::identity(1100)},
      {"blocks_of_rows", {2, 2050}, 2, piece(5, 1, 3)},
  };
  for (const auto& s : shapes) add_shape(cases, s);
}

}  // namespace megatron::cpu::testing
