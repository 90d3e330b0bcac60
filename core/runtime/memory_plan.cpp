#include "runtime/memory_plan.hpp"

#include <algorithm>
#include <numeric>

#include "graph/op.hpp"

namespace megatron::runtime {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

int64_t align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A block of memory alive from node `first` to node `last`, both included.
struct Block {
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  int64_t offset = -1;
};

// First fit by decreasing size: each block goes to the lowest gap among the blocks alive with it.
int64_t place(std::vector<Block>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<Block> placed;  // by offset; copies, since every block walks along them
  int64_t total = 0;
  for (const size_t i : order) {
    Block& block = blocks[i];
    int64_t at = 0;
    for (const Block& other : placed) {
      if (other.last < block.first || block.last < other.first) continue;
      if (other.offset >= at + block.bytes) break;
      at = std::max(at, other.offset + other.bytes);
    }
    block.offset = at;
    total = std::max(total, at + block.bytes);
    const auto where =
        std::lower_bound(placed.begin(), placed.end(), at,
                         [](const Block& other, int64_t offset) { return other.offset < offset; });
    placed.insert(where, block);
  }
  return total;
}

int64_t live_peak(const std::vector<Block>& blocks, size_t nodes) {
  std::vector<int64_t> change(nodes + 2, 0);
  for (const auto& b : blocks) {
    change[static_cast<size_t>(b.first + 1)] += b.bytes;
    if (static_cast<size_t>(b.last + 2) < change.size())
      change[static_cast<size_t>(b.last + 2)] -= b.bytes;
  }
  int64_t peak = 0;
  int64_t alive = 0;
  for (const int64_t c : change) peak = std::max(peak, alive += c);
  return peak;
}

}  // namespace

MemoryPlan plan_memory(const Program& program, std::span<const int64_t> workspace_bytes) {
  const auto nodes = static_cast<int64_t>(program.nodes.size());
  std::vector<Block> blocks;
  std::vector<size_t> block_of(program.values.size(), SIZE_MAX);
  const auto needs_scratch = [&](const Value& value) {
    const bool kind = value.kind == ValueKind::input || value.kind == ValueKind::result;
    return kind && value.into == kNone && !value.type.is_scalar();
  };

  std::vector<int64_t> last_use(program.values.size(), -1);
  for (int64_t n = 0; n < nodes; ++n) {
    for (const ValueId v : program.nodes[static_cast<size_t>(n)].inputs) last_use[v] = n;
    for (const ValueId v : program.nodes[static_cast<size_t>(n)].outputs)
      last_use[v] = std::max(last_use[v], n);
  }
  for (const auto& o : program.outputs) last_use[o.value] = nodes;
  for (const auto& l : program.losses) last_use[l.sum] = last_use[l.count] = nodes;

  const auto add = [&](ValueId v, int64_t first) {
    block_of[v] = blocks.size();
    blocks.push_back({align(std::max<int64_t>(program.type(v).bytes(), 1)), first, last_use[v]});
  };
  // Inputs are written before the first node.
  for (const ValueId v : program.inputs) add(v, -1);

  MemoryPlan plan;
  std::vector<size_t> workspace_block(program.nodes.size(), SIZE_MAX);
  for (int64_t n = 0; n < nodes; ++n) {
    const Node& node = program.nodes[static_cast<size_t>(n)];
    const bool in_place = node.op->elementwise() || node.op->name == "fused";
    std::vector<ValueId> taken;  // operands whose memory a result of this node has already
    for (const ValueId v : node.outputs) {
      if (!needs_scratch(program.values[v])) continue;
      if (in_place) {
        const auto dying = std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId i) {
          return block_of[i] != SIZE_MAX && blocks[block_of[i]].last == n && last_use[i] == n &&
                 std::find(taken.begin(), taken.end(), i) == taken.end() &&
                 program.type(i).bytes() == program.type(v).bytes() &&
                 program.type(i).dims == program.type(v).dims;
        });
        if (dying != node.inputs.end()) {
          taken.push_back(*dying);
          block_of[v] = block_of[*dying];
          blocks[block_of[v]].last = last_use[v];
          continue;
        }
      }
      add(v, n);
    }
    if (workspace_bytes[static_cast<size_t>(n)] > 0) {
      workspace_block[static_cast<size_t>(n)] = blocks.size();
      blocks.push_back({align(workspace_bytes[static_cast<size_t>(n)]), n, n});
    }
  }

  plan.scratch_bytes = place(blocks);
  plan.live_peak_bytes = live_peak(blocks, program.nodes.size());
  for (const size_t b : block_of) plan.offsets.push_back(b == SIZE_MAX ? -1 : blocks[b].offset);
  for (const size_t b : workspace_block)
    plan.workspace_offsets.push_back(b == SIZE_MAX ? -1 : blocks[b].offset);
  return plan;
}

}  // namespace megatron::runtime
