// Ranks as real processes: forks them, gives each the rendezvous store and a communication plugin,
// and collects how they ended. Expectations of GoogleTest work inside a rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "megatron/abi/comm.h"
#include "megatron/status.hpp"

namespace megatron::test {

// A group of the plugin, through the C table.
class GroupHandle {
 public:
  GroupHandle(const mgt_comm* table, void* self, void* group)
      : table_(table), self_(self), group_(group) {}
  GroupHandle(GroupHandle&& other) noexcept : table_(other.table_), self_(other.self_) {
    std::swap(group_, other.group_);
  }
  ~GroupHandle() {
    if (group_ != nullptr) table_->release_group(self_, group_);
  }
  Result<void*> start(const std::vector<mgt_collective>& operations) const {
    void* request = nullptr;
    MGT_RETURN_IF_ERROR(
        from_abi(table_->start(group_, operations.data(), operations.size(), &request)));
    return request;
  }
  Status wait(void* request) const { return from_abi(table_->wait(group_, request)); }
  Status run(const std::vector<mgt_collective>& operations) const {
    MGT_ASSIGN_OR_RETURN(void* request, start(operations));
    return wait(request);
  }

 private:
  const mgt_comm* table_;
  void* self_;
  void* group_ = nullptr;
};

// What the body of a rank works with.
class Rank {
 public:
  Rank(const mgt_comm* table, const mgt_host* host, const mgt_config* config,
       const mgt_comm_context& context);
  ~Rank();
  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  GroupHandle group(std::string_view name, std::vector<uint32_t> ranks = {}) const;  // {}: all
  template <class T>
  T* allocate(size_t count) const {
    return static_cast<T*>(allocate_bytes(count * sizeof(T)));
  }
  void free(void* memory) const { table_->free(self_, memory); }
  void abort(std::string_view reason) const { table_->abort(self_, to_abi(reason)); }
  // All ranks get here, through the store; works when the plugin does not.
  void meet(const std::string& where) const;
  Status created() const { return created_; }

 private:
  void* allocate_bytes(size_t bytes) const;
  const mgt_comm* table_;
  const mgt_store* store_;
  void* self_ = nullptr;
  uint32_t rank_, size_;
  Status created_;
};

struct World {
  uint32_t ranks = 2;
  std::string plugin = "ucx";
  std::map<std::string, std::string> options = {};  // of the plugin, as text
  std::vector<std::string> hosts = {};              // one a rank: ranks of different hosts
  std::chrono::seconds limit = std::chrono::seconds(60);
};

// Exit code of each rank; -signal when a signal ended it, kStuck when the limit passed.
inline constexpr int kStuck = -1000;
std::vector<int> run_ranks(const World& world, const std::function<void(Rank&)>& body);

// One rank, in this process; values of the store are files in `folder`. Returns the exit code.
int run_as_rank(const World& world, uint32_t rank, const std::string& folder,
                const std::function<void(Rank&)>& body);

// Every rank ended with 0.
void expect_all_pass(const World& world, const std::function<void(Rank&)>& body);

// The description of a plugin that is built here, with the defaults of its options or `given`.
class LoadedComm {
 public:
  static Result<std::shared_ptr<LoadedComm>> load(const std::string& plugin,
                                                  std::map<std::string, std::string> given);
  const mgt_comm* table() const { return table_; }
  const mgt_config* config() const { return &config_; }
  const mgt_host* host() const { return host_; }

 private:
  mgt_status* get(std::string_view key, mgt_config_value* out) const;
  const mgt_comm* table_ = nullptr;
  const mgt_host* host_ = nullptr;
  mgt_config config_{};
  struct Value {
    mgt_option_type type;
    std::string text;
  };
  std::map<std::string, Value, std::less<>> values_;
};
std::string plugin_path(const std::string& plugin);

// Fills the parts of an operation that tests vary.
mgt_collective operation(mgt_collective_kind kind, mgt_dtype dtype, const void* send, void* recv,
                         uint64_t count, std::string_view name = "test");

}  // namespace megatron::test
