// Attention by whole matrices of weights, by global positions; the ring's merge by weights.
#include <cmath>
#include <limits>

#include "megatron/philox.hpp"
#include "unit/devices/op_case.hpp"

namespace megatron::cpu::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Operands q, k (and v like k) at inputs q, q + 1, q + 2.
struct Heads {
  const OpCase& c;
  size_t at;  // of q

  const TensorDesc& q() const { return c.desc.inputs[at]; }
  const TensorDesc& k() const { return c.desc.inputs[at + 1]; }
  double scale() const { return std::get<double>(c.desc.attrs.at("scale")); }
  int64_t key_head(int64_t n) const {
    return k().maps[2].local(q().global_index(2, n) * k().maps[2].global_size() /
                             q().maps[2].global_size());
  }
  double query(int64_t b, int64_t i, int64_t n, int64_t d) const {
    return c.inputs[at][static_cast<size_t>(ravel(q(), {b, i, n, d}))];
  }
  double key(size_t operand, int64_t b, int64_t j, int64_t g, int64_t d) const {
    return c.inputs[at + operand][static_cast<size_t>(ravel(k(), {b, j, g, d}))];
  }
  // scale·q·k, −inf where the query may not see the key.
  double score(int64_t b, int64_t n, int64_t i, int64_t j) const {
    const int64_t pi = q().global_index(1, i), pj = k().global_index(1, j);
    if (pi < 0 || pj < 0 || q().global_index(2, n) < 0) return -kInfinity;
    if (std::get<int64_t>(c.desc.attrs.at("causal")) != 0 && pj > pi) return -kInfinity;
    double sum = 0;
    for (int64_t d = 0; d < q().dims[3]; ++d) {
      sum += query(b, i, n, d) * key(1, b, j, key_head(n), d);
    }
    return sum * scale();
  }
  double factor(int64_t b, int64_t n, int64_t i, int64_t j) const {
    const double p = c.desc.number("dropout", 0);
    if (p == 0) return 1;
    const int64_t e =
        (q().global_index(2, n) * q().maps[1].global_size() + q().global_index(1, i)) *
            k().maps[1].global_size() +
        k().global_index(1, j);
    const auto stream = RandomStream::make(c.rng.seed, site_of(c.desc.string("site")), c.rng.step);
    const float u =
        stream.uniform(static_cast<uint64_t>(e), static_cast<uint64_t>(c.rng.sample_offset + b));
    return static_cast<double>(u) < p ? 0 : 1 / (1 - p);
  }
};

std::vector<Values> forward(const OpCase& c) {
  const Heads h{c, 0};
  const auto &out_t = c.desc.outputs[0], &lse_t = c.desc.outputs[1];
  Values out(static_cast<size_t>(out_t.elements()), 0.0);
  Values lse(static_cast<size_t>(lse_t.elements()), -kInfinity);
  for (int64_t row = 0; row < lse_t.elements(); ++row) {
    const auto at = unravel(lse_t, row);  // b, n, i
    std::vector<double> scores;
    double total = 0;
    for (int64_t j = 0; j < h.k().dims[1]; ++j) {
      scores.push_back(h.score(at[0], at[1], at[2], j));
      total += std::exp(scores.back());
    }
    if (total == 0) continue;
    lse[static_cast<size_t>(row)] = std::log(total);
    for (int64_t j = 0; j < h.k().dims[1]; ++j) {
      const double s = scores[static_cast<size_t>(j)];
      if (s == -kInfinity) continue;
      const double weight = std::exp(s) / total * h.factor(at[0], at[1], at[2], j);
      for (int64_t d = 0; d < h.q().dims[3]; ++d) {
        out[static_cast<size_t>(ravel(out_t, {at[0], at[2], at[1], d}))] +=
            weight * h.key(2, at[0], j, h.key_head(at[1]), d);
      }
    }
  }
  return {out, lse};
}

// Inputs dout, q, k, v, out, lse.
std::vector<Values> backward(const OpCase& c) {
  const Heads h{c, 1};
  const auto &q = h.q(), &k = h.k(), &lse = c.desc.inputs[5];
  const auto at_q = [&](size_t operand, int64_t b, int64_t i, int64_t n, int64_t d) {
    return c.inputs[operand][static_cast<size_t>(ravel(q, {b, i, n, d}))];
  };
  Values dq(static_cast<size_t>(q.elements()), 0.0);
  Values dk(static_cast<size_t>(k.elements()), 0.0), dv = dk;
  for (int64_t row = 0; row < lse.elements(); ++row) {
    const auto r = unravel(lse, row);
    const int64_t b = r[0], n = r[1], i = r[2], g = h.key_head(n);
    double delta = 0;
    for (int64_t d = 0; d < q.dims[3]; ++d) delta += at_q(0, b, i, n, d) * at_q(4, b, i, n, d);
    for (int64_t j = 0; j < k.dims[1]; ++j) {
      const double s = h.score(b, n, i, j);
      if (s == -kInfinity) continue;
      const double weight = std::exp(s - c.inputs[5][static_cast<size_t>(row)]);
      const double z = h.factor(b, n, i, j);
      double dweight = 0;
      for (int64_t d = 0; d < q.dims[3]; ++d) dweight += at_q(0, b, i, n, d) * h.key(2, b, j, g, d);
      const double ds = weight * (z * dweight - delta) * h.scale();
      for (int64_t d = 0; d < q.dims[3]; ++d) {
        const auto key = static_cast<size_t>(ravel(k, {b, j, g, d}));
        dq[static_cast<size_t>(ravel(q, {b, i, n, d}))] += ds * h.key(1, b, j, g, d);
        dk[key] += ds * h.query(b, i, n, d);
        dv[key] += weight * z * at_q(0, b, i, n, d);
      }
    }
  }
  return {dq, dk, dv};
}

std::vector<Values> merged(const OpCase& c) {
  const auto &out_t = c.desc.outputs[0], &lse_t = c.desc.outputs[1];
  Values out(static_cast<size_t>(out_t.elements()), 0.0);
  Values lse(static_cast<size_t>(lse_t.elements()), -kInfinity);
  for (int64_t row = 0; row < lse_t.elements(); ++row) {
    const auto at = unravel(lse_t, row);
    const auto r = static_cast<size_t>(row);
    const double a = std::exp(c.inputs[1][r]), b = std::exp(c.inputs[3][r]);
    if (a + b == 0) continue;
    lse[r] = std::log(a + b);
    for (int64_t d = 0; d < out_t.dims[3]; ++d) {
      const auto e = static_cast<size_t>(ravel(out_t, {at[0], at[2], at[1], d}));
      out[e] = (a * c.inputs[0][e] + b * c.inputs[2][e]) / (a + b);
    }
  }
  return {out, lse};
}

struct Shape {
  std::string_view name;
  int64_t batch, head_dim;
  IndexMap s, t, n, g;
  bool causal;
  double dropout;
};

void add_shape(std::vector<OpCase>& cases, const Shape& s) {
  const auto b = IndexMap::identity(s.batch), d = IndexMap::identity(s.head_dim);
  const auto q = mapped({b, s.s, s.n, d}), k = mapped({b, s.t, s.g, d}),
             lse = mapped({b, s.n, s.s});
  const auto with_attrs = [&](std::string_view op) {
    CaseWriter w(op, s.name);
    w.attr("causal", int64_t{s.causal}).attr("scale", 0.7).attr("dropout", s.dropout);
    w.attr("site", "h.3.attn");
    return w;
  };
  cases.push_back(
      with_attrs("attention").input(q).input(k).input(k).output(q).output(lse).formula(forward));
  // Any out and lse will do: those of a ring come from more keys than are held.
  cases.push_back(with_attrs("attention_grad")
                      .input(q)
                      .input(q)
                      .input(k)
                      .input(k)
                      .input(q)
                      .input(lse, 2, 4)
                      .output(q)
                      .output(k)
                      .output(k)
                      .formula(backward));
}

}  // namespace

void add_attention_cases(std::vector<OpCase>& cases) {
  const auto whole = [](int64_t n) { return IndexMap::identity(n); };
  const auto half = [&](int64_t n, Cut how, int64_t index) { return whole(n).cut(how, 2, index); };
  const Shape shapes[] = {
      {"one", 1, 1, whole(1), whole(1), whole(1), whole(1), true, 0},
      {"odd", 2, 5, whole(7), whole(7), whole(3), whole(3), true, 0},
      {"all_keys", 1, 8, whole(9), whole(9), whole(2), whole(2), false, 0},
      {"cross", 2, 4, whole(5), whole(11), whole(2), whole(2), false, 0},
      {"causal_cross", 1, 4, whole(5), whole(11), whole(2), whole(2), true, 0},
      {"gqa", 2, 16, whole(6), whole(6), whole(6), whole(2), true, 0},
      {"one_key_head", 1, 3, whole(6), whole(6), whole(4), whole(1), false, 0},
      {"dropout", 2, 6, whole(9), whole(9), whole(4), whole(2), true, 0.3},
      {"dropout_all_keys", 1, 6, whole(5), whole(10), whole(2), whole(2), false, 0.5},
      {"heads_held", 2, 4, whole(6), whole(6), piece(4, 2, 2), piece(2, 1, 1), true, 0.2},
      {"queries_offset", 1, 4, half(12, Cut::contiguous, 1), whole(12), whole(2), whole(2), true,
       0},
      {"ring_earlier_keys", 2, 4, half(12, Cut::contiguous, 1), half(12, Cut::contiguous, 0),
       whole(2), whole(1), true, 0.1},
      {"ring_later_keys", 1, 4, half(12, Cut::contiguous, 0), half(12, Cut::contiguous, 1),
       whole(2), whole(2), true, 0},
      {"balanced", 1, 4, half(16, Cut::balanced, 1), half(16, Cut::balanced, 0), whole(2), whole(2),
       true, 0.1},
      {"padded", 1, 4, half(11, Cut::contiguous, 1), half(13, Cut::contiguous, 1), whole(2),
       whole(2), true, 0},
      {"padded_heads", 1, 4, whole(5), whole(5), piece(6, 4, 2, 1), piece(3, 2, 1, 1), true, 0},
      {"no_keys_held", 1, 4, whole(5), IndexMap(9, 3, {}), whole(2), whole(2), false, 0},
      {"tiles", 1, 16, whole(300), whole(300), whole(2), whole(1), true, 0.1},
      {"tiles_balanced", 1, 8, half(520, Cut::balanced, 1), whole(520), whole(1), whole(1), true,
       0},
      {"many_heads", 3, 8, whole(40), whole(40), whole(6), whole(6), true, 0},
  };
  for (const auto& s : shapes) add_shape(cases, s);

  for (const auto& dims :
       std::vector<std::vector<int64_t>>{{1, 1, 1, 1}, {2, 5, 3, 7}, {3, 70, 2, 8}}) {
    const auto out = f32(dims), lse = f32({dims[0], dims[2], dims[1]});
    cases.push_back(CaseWriter("attention_merge", out.to_string())
                        .input(out)
                        .input(lse, -3, 3)
                        .input(out)
                        .input(lse, -3, 3)
                        .output(out)
                        .output(lse)
                        .formula(merged));
  }
  // Rows that have seen no key on one side, or on neither.
  cases.push_back(CaseWriter("attention_merge", "empty_sides")
                      .input(f32({1, 4, 1, 2}), {0, 0, 1, 2, 0, 0, 5, 6})
                      .input(f32({1, 1, 4}), {-kInfinity, 0.5, -kInfinity, 1})
                      .input(f32({1, 4, 1, 2}), {3, 4, 0, 0, 0, 0, 7, 8})
                      .input(f32({1, 1, 4}), {0.25, -kInfinity, -kInfinity, 2})
                      .output(f32({1, 4, 1, 2}))
                      .output(f32({1, 1, 4}))
                      .formula(merged));
}

}  // namespace megatron::cpu::testing
