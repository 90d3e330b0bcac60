#include "merge.hpp"

#include <algorithm>
#include <cstring>
#include <queue>
#include <vector>

namespace megatron::gpt2 {
namespace {

constexpr size_t kShort = 48;  // above this the heap wins; measured around 40 to 100

// Ids and the merge of each with its right neighbour in two small arrays; a merge closes the gap.
size_t merge_short(const Vocabulary& vocabulary, int32_t* ids, size_t n) {
  Merge merges[kShort];
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = vocabulary.merges.find(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == Merge::kNone) break;
    ids[best] = merges[best].id;
    --n;
    std::memmove(ids + best + 1, ids + best + 2, (n - best - 1) * sizeof *ids);
    if (n > best + 1) {
      std::memmove(merges + best + 1, merges + best + 2, (n - best - 2) * sizeof *merges);
      merges[best] = vocabulary.merges.find(ids[best], ids[best + 1]);
    }
    if (best > 0) merges[best - 1] = vocabulary.merges.find(ids[best - 1], ids[best]);
  }
  return n;
}

// A linked list of ids and a heap of candidate merges; outdated candidates are recognised when
// popped.
class LongMerger {
 public:
  size_t merge(const Vocabulary& vocabulary, int32_t* ids, size_t n) {
    nodes_.resize(n);
    heap_.clear();
    for (size_t i = 0; i < n; ++i) {
      nodes_[i] = {ids[i], static_cast<int64_t>(i) - 1, static_cast<int64_t>(i) + 1};
    }
    end_ = static_cast<int64_t>(n);
    for (int64_t i = 0; i + 1 < end_; ++i) push(vocabulary, i);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Candidate c = heap_.back();
      heap_.pop_back();
      Node& left = node(c.at);
      if (left.id != c.left || left.next == end_ || node(left.next).id != c.right) continue;
      node(left.next).id = kGone;
      left.id = c.merge.id;
      left.next = node(left.next).next;
      if (left.next != end_) node(left.next).previous = c.at;
      push(vocabulary, c.at);
      if (left.previous >= 0) push(vocabulary, left.previous);
    }
    size_t count = 0;
    for (int64_t i = 0; i != end_; i = node(i).next) ids[count++] = node(i).id;
    return count;
  }

 private:
  static constexpr int32_t kGone = -1;
  struct Node {
    int32_t id;
    int64_t previous, next;
  };
  struct Candidate {
    Merge merge;
    int32_t left, right;
    int64_t at;
    bool operator<(const Candidate& other) const {  // the heap's top is the largest
      return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : at > other.at;
    }
  };
  Node& node(int64_t i) { return nodes_[static_cast<size_t>(i)]; }
  void push(const Vocabulary& vocabulary, int64_t at) {
    const Node& left = node(at);
    if (left.next == end_) return;
    const int32_t right = node(left.next).id;
    const auto merge = vocabulary.merges.find(left.id, right);
    if (merge.rank == Merge::kNone) return;
    heap_.push_back({merge, left.id, right, at});
    std::push_heap(heap_.begin(), heap_.end());
  }
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
  int64_t end_ = 0;
};

}  // namespace

size_t merge_piece(const Vocabulary& vocabulary, std::string_view piece, int32_t* out) {
  for (size_t i = 0; i < piece.size(); ++i)
    out[i] = vocabulary.id_of_byte[static_cast<unsigned char>(piece[i])];
  if (piece.size() <= kShort) return merge_short(vocabulary, out, piece.size());
  LongMerger merger;
  return merger.merge(vocabulary, out, piece.size());
}

}  // namespace megatron::gpt2
