// embedding and embedding_grad by global row numbers: ids that this rank does not hold give zeros
// and get nothing.
#include "unit/devices/op_case.hpp"

namespace megatron::cpu::testing {
namespace {

std::vector<Values> rows_of(const OpCase& c) {
  const auto& table = c.desc.inputs[1];
  const int64_t k = table.product(1, table.rank());
  Values out;
  for (const double id : c.inputs[0]) {
    const int64_t row = table.maps[0].local(static_cast<int64_t>(id));
    for (int64_t j = 0; j < k; ++j) {
      out.push_back(row < 0 ? 0 : c.inputs[1][static_cast<size_t>(row * k + j)]);
    }
  }
  return {out};
}

std::vector<Values> scattered(const OpCase& c) {
  const auto& table = c.desc.outputs[0];
  const int64_t k = table.product(1, table.rank());
  Values out = c.adds(0) ? c.before[0] : Values(static_cast<size_t>(table.elements()), 0.0);
  for (int64_t v = 0; v < table.dims[0]; ++v) {
    const int64_t global = table.global_index(0, v);
    if (global < 0) continue;
    for (size_t m = 0; m < c.inputs[0].size(); ++m) {
      if (static_cast<int64_t>(c.inputs[0][m]) != global) continue;
      for (int64_t j = 0; j < k; ++j) {
        out[static_cast<size_t>(v * k + j)] +=
            c.inputs[1][m * static_cast<size_t>(k) + static_cast<size_t>(j)];
      }
    }
  }
  return {out};
}

struct Table {
  std::string_view name;
  IndexMap vocab;
  std::vector<int64_t> ids, columns;
};

}  // namespace

void add_embedding_cases(std::vector<OpCase>& cases) {
  const Table tables[] = {
      {"one", IndexMap::identity(1), {1}, {1}},
      {"odd", IndexMap::identity(11), {3, 5}, {7}},
      {"scalar_id", IndexMap::identity(5), {}, {3}},
      {"two_columns", IndexMap::identity(9), {4}, {3, 5}},
      {"offset", piece(20, 5, 6), {2, 9}, {33}},
      {"padding", piece(20, 14, 6, 3), {31}, {16}},
      {"two_chunks", IndexMap::identity(24).cut(Cut::balanced, 2, 1), {40}, {130}},
      {"nothing_held", IndexMap(20, 4, {}), {6}, {5}},
      {"large", IndexMap::identity(300), {500}, {300}},
  };
  for (const auto& t : tables) {
    std::vector<IndexMap> table{t.vocab}, rows;
    for (const int64_t m : t.ids) rows.push_back(IndexMap::identity(m));
    for (const int64_t k : t.columns) {
      table.push_back(IndexMap::identity(k));
      rows.push_back(IndexMap::identity(k));
    }
    const int64_t v = t.vocab.global_size();
    cases.push_back(CaseWriter("embedding", t.name)
                        .ids(i32(t.ids), 0, v)
                        .input(mapped(table))
                        .output(mapped(rows))
                        .formula(rows_of));
    for (const double flag : {0.0, 1.0}) {
      cases.push_back(CaseWriter("embedding_grad", text(t.name, flag != 0 ? "_add" : "_overwrite"))
                          .attr("vocab", v)
                          .ids(i32(t.ids), 0, v)
                          .input(mapped(rows))
                          .output(mapped(table))
                          .accumulates()
                          .scalar(flag)
                          .formula(scattered));
    }
  }
  cases.push_back(CaseWriter("embedding_grad", "plain")
                      .attr("vocab", int64_t{6})
                      .ids(i32({10}), 0, 6)
                      .input(f32({10, 4}))
                      .output(f32({6, 4}))
                      .formula(scattered));
}

}  // namespace megatron::cpu::testing
