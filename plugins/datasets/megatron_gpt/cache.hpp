// The indices on disk, so that a second start, and the other ranks of a node, map them instead of
// shuffling again. A file is named by the hash of everything that determines its contents: it is
// never out of date, only present or absent. It is written under a temporary name and renamed, so
// processes that start together may all write it; one of the equal files stays.
#pragma once

#include <optional>
#include <string>

#include "index.hpp"
#include "megatron/host.hpp"

namespace megatron::gpt {

// 32 hexadecimal digits over the plan and the lengths of its sequences.
std::string index_key(const IndexPlan& plan, Lengths lengths);

class IndexCache {
 public:
  // Files lie directly in `folder`, which is created when needed.
  IndexCache(std::string folder, Host host) : folder_(std::move(folder)), host_(host) {}

  // From the file, or built and stored. A damaged file and a folder that cannot be written are
  // warnings: the index is built in memory all the same. RESOURCE_EXHAUSTED when the machine cannot
  // hold it.
  Result<GptIndex> get(const IndexPlan& plan, Lengths lengths) const;

  std::string path_of(const std::string& key) const;

 private:
  std::string folder_;
  Host host_;
};

// The file's own layout, for IndexCache and its tests. NOT_FOUND or DATA_LOSS.
Result<GptIndex> load_index(const std::string& path, const std::string& key);
Status store_index(const std::string& path, const std::string& key, const GptIndex& index);

}  // namespace megatron::gpt
