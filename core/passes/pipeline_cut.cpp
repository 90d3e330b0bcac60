#include "passes/pipeline_cut.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "graph/op.hpp"
#include "graph/rewrite.hpp"
#include "graph/verifier.hpp"

namespace megatron::passes {

using namespace graph;  // NOLINT(google-build-using-namespace)

int64_t PipelineCut::stage_of(const Node& node) const {
  const int64_t block = !node.in_block && node.block == blocks - 1 ? blocks : node.block;
  int64_t stage = 0;
  while (stage + 1 < stages() && first_block[static_cast<size_t>(stage) + 1] <= block) ++stage;
  return stage;
}

int64_t block_count(const Program& program) {
  int64_t last = -1;
  for (const auto& node : program.nodes) last = std::max(last, node.block);
  return last + 1;
}

namespace {

constexpr int64_t kLongest = 1 << 20;  // group of a layout, written out

// "Ett|(tt|)*2tL" -> layers of each stage.
class StageText {
 public:
  StageText(std::string_view text, int64_t blocks) : text_(text), blocks_(blocks) {}

  Result<std::vector<int64_t>> run() {
    std::string flat;
    MGT_RETURN_IF_ERROR(expand(flat));
    std::vector<int64_t> layers = {0};
    for (size_t i = 0; i < flat.size(); ++i) {
      switch (flat[i]) {
        case 't':
          ++layers.back();
          break;
        case '|':
          layers.push_back(0);
          break;
        case ',':
        case ' ':
          break;
        case 'E':
          if (layers.size() > 1 || layers[0] > 0) return fail("the embedding E comes first");
          break;
        case 'L':
          if (flat.find('t', i) != std::string::npos) return fail("the loss L comes last");
          break;
        default:
          return fail(megatron::text("'", flat[i], "' is not one of E t L | ( )*n"));
      }
    }
    int64_t total = 0;
    for (const int64_t n : layers) total += n;
    if (total != blocks_)
      return fail(megatron::text("it has ", total, " layers t, the model ", blocks_));
    return layers;
  }

 private:
  // Writes "(…)*n" out.
  Status expand(std::string& out) {
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] != '(') {
        out += text_[i];
        continue;
      }
      const size_t close = text_.find(')', i);
      int64_t repeat = 0;
      size_t end = close;
      if (close != std::string_view::npos && text_.substr(close + 1, 1) == "*") {
        const char* first = text_.data() + close + 2;
        const auto parsed = std::from_chars(first, text_.data() + text_.size(), repeat);
        end = static_cast<size_t>(parsed.ptr - text_.data()) - 1;
      }
      if (repeat < 1) return fail("a group is written (…)*n");
      if (repeat > kLongest || static_cast<int64_t>(close - i) > kLongest / repeat)
        return fail(megatron::text("written out it is longer than ", kLongest));
      for (int64_t k = 0; k < repeat; ++k) out += text_.substr(i + 1, close - i - 1);
      i = end;
    }
    return {};
  }
  Status fail(std::string_view cause) const {
    return invalid_argument(megatron::text("pipeline layout \"", text_, "\" does not fit"), cause,
                            "correct pipeline_model_parallel_layout");
  }
  std::string_view text_;
  int64_t blocks_;
};

Status misfit(const PipelineSplit& split, int64_t blocks) {
  return invalid_argument(text("the model has ", blocks, " layers"),
                          text("the first and last pipeline stages ask for ", split.first_layers,
                               " and ", split.last_layers, " of them"),
                          "change num_layers_in_first_ or _last_pipeline_stage");
}

// Layers of each virtual stage; embedding and loss count as layers where the layout says so.
Result<std::vector<int64_t>> deal(const PipelineSplit& split, int64_t stages, int64_t blocks) {
  std::vector<int64_t> layers(static_cast<size_t>(stages), 0);
  size_t begin = 0;
  size_t end = layers.size();
  int64_t left = blocks;
  if (split.first_layers > blocks || split.last_layers > blocks) return misfit(split, blocks);
  if (split.first_layers > 0) left -= layers[begin++] = split.first_layers;
  if (split.last_layers > 0) left -= layers[--end] = split.last_layers;
  const int64_t embedding = split.embedding_counts && split.first_layers == 0 ? 1 : 0;
  const int64_t loss = split.loss_counts && split.last_layers == 0 ? 1 : 0;
  const auto open = static_cast<int64_t>(end - begin);
  const int64_t units = left + embedding + loss;
  if (left < 0 || (open == 0 && left != 0)) return misfit(split, blocks);
  for (int64_t i = 0; i < open; ++i)
    layers[begin + static_cast<size_t>(i)] = units / open + (i < units % open ? 1 : 0);
  if (open > 0) {
    layers[begin] -= embedding;
    layers[end - 1] -= loss;
  }
  return layers;
}

}  // namespace

Result<PipelineCut> make_cut(const Layout& layout, int64_t blocks) {
  const auto axis = layout.axis(layout.pipeline_axis);
  MGT_CHECK(axis.has_value());
  PipelineCut cut{layout.pipeline_axis, layout.axes[*axis].size, {}, blocks};
  const int64_t stages = cut.ranks * layout.pipeline.virtual_stages;
  if (blocks < stages && layout.pipeline.layout.empty()) {
    return invalid_argument(
        text("the model has ", blocks, " layers and the pipeline ", stages, " stages (", cut.ranks,
             " ranks with ", layout.pipeline.virtual_stages, " each)"),
        "every stage needs a layer",
        "use fewer pipeline ranks or virtual stages, or write the stages out in "
        "pipeline_model_parallel_layout");
  }
  std::vector<int64_t> layers;
  if (layout.pipeline.layout.empty()) {
    MGT_ASSIGN_OR_RETURN(layers, deal(layout.pipeline, stages, blocks));
  } else {
    MGT_ASSIGN_OR_RETURN(layers, StageText(layout.pipeline.layout, blocks).run());
    if (static_cast<int64_t>(layers.size()) != stages) {
      return invalid_argument(
          text("pipeline layout \"", layout.pipeline.layout, "\" has ", layers.size(), " stages"),
          text("the pipeline has ", stages),
          "write as many stages as there are ranks times virtual stages");
    }
  }
  int64_t next = 0;
  for (const int64_t n : layers) {
    cut.first_block.push_back(next);
    next += n;
  }
  return cut;
}

Result<Program> cut_stage(const Program& program, const PipelineCut& cut, int64_t stage) {
  // Which stages read each value that a node makes.
  std::vector<std::set<int64_t>> readers(program.values.size());
  for (const auto& node : program.nodes) {
    for (const ValueId v : node.inputs) {
      if (!program.type(v).is_scalar()) readers[v].insert(cut.stage_of(node));
    }
  }
  Program out = program;
  std::vector<Node> nodes;
  std::map<ValueId, ValueId> received;
  const auto message = [&](std::string_view op_name, const Node& like, int64_t peer,
                           const std::string& tag) {
    Node node;
    node.op = op(op_name);
    node.attrs = {{"axis", cut.axis}, {"peer", peer}, {"tag", tag}};
    node.scope = like.scope;
    node.block = like.block;
    node.phase = like.phase;
    return node;
  };
  for (const auto& original : program.nodes) {
    const int64_t at = cut.stage_of(original);
    const bool scalar_node = program.yields_scalar(original);
    Node node = original;
    if (at == stage || scalar_node) {
      for (auto& v : node.inputs) {
        if (const auto it = received.find(v); it != received.end()) v = it->second;
      }
      nodes.push_back(node);
    }
    if (scalar_node) continue;
    for (const ValueId v : original.outputs) {
      const std::string& tag = program.values[v].name;
      for (const int64_t reader : readers[v]) {
        if (reader == at) continue;
        if (at == stage) {
          Node send = message("send", original, reader % cut.ranks, tag);
          send.inputs = {v};
          nodes.push_back(std::move(send));
        } else if (reader == stage) {
          Node recv = message("recv", original, at % cut.ranks, tag);
          recv.attrs["dtype"] = std::string(dtype_name(program.type(v).dtype));
          type_to_attrs(program.type(v), recv.attrs);
          Value value;
          value.name = program.values[v].name + "@recv";
          value.type = program.type(v);
          value.maps = program.values[v].maps;
          const ValueId id = out.add_value(std::move(value));
          recv.outputs = {id};
          received[v] = id;
          nodes.push_back(std::move(recv));
        }
      }
    }
  }
  out.nodes = std::move(nodes);
  out = drop_unused(std::move(out));
  MGT_RETURN_IF_ERROR(verify(out).context(text("cutting pipeline stage ", stage)));
  return out;
}

}  // namespace megatron::passes
