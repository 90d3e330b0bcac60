// Author's side of plugin kind `comm`: collectives and point-to-point messages, with deadlines.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/abi/comm.h"
#include "megatron/dtype.hpp"
#include "megatron/plugin.hpp"

namespace megatron {

MGT_KIND_OF(mgt_comm, MGT_KIND_COMM);

// The launch's key-value store. Throws StatusError.
class Store {
 public:
  explicit Store(const mgt_store* table) : table_(table) {}
  void set(std::string_view key, std::span<const std::byte> value) const {
    throw_if_error(from_abi(table_->set(table_->context, to_abi(key), value.data(), value.size()),
                            "the store"));
  }
  void set(std::string_view key, std::string_view value) const {
    set(key, std::as_bytes(std::span(value)));
  }
  // Waits for the key.
  std::string get(std::string_view key, uint64_t timeout_ms) const {
    std::string value(256, '\0');
    for (;;) {
      uint64_t size = 0;
      throw_if_error(from_abi(
          table_->get(table_->context, to_abi(key), timeout_ms, value.data(), value.size(), &size),
          "the store"));
      const bool enough = size <= value.size();
      value.resize(size);
      if (enough) return value;
    }
  }

 private:
  const mgt_store* table_;
};

struct CommContext {
  Host host;
  uint32_t rank, world_size;
  uint32_t local_rank, local_size;  // on this host
  std::optional<Store> store;       // none when world_size is 1
};

// Operations under way; destroyed after wait().
class CommRequest {
 public:
  virtual ~CommRequest() = default;
  // Returns when every operation is complete; throws StatusError with the report of who is missing.
  virtual void wait() = 0;
};

// The ranks of a sub-communicator. Operations are described in abi/comm.h.
class CommGroup {
 public:
  virtual ~CommGroup() = default;
  // `operations` are borrowed during the call, their buffers until the request is done.
  virtual std::unique_ptr<CommRequest> start(std::span<const mgt_collective> operations) = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::unique_ptr<CommGroup> group(std::string_view name,
                                           std::span<const uint32_t> ranks) = 0;
  // Aligned to at least 4096 bytes, zeroed.
  virtual void* allocate(uint64_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  virtual void abort(std::string_view reason) noexcept = 0;
};

// Table for `T : Communicator` with a constructor T(const Config&, const CommContext&).
template <class T>
const mgt_comm* comm_table() {
  static const mgt_comm table{
      sizeof(mgt_comm),
      0,
      [](const mgt_host* host, const mgt_config* config, const mgt_comm_context* c, void** self) {
        return guarded([&] {
          CommContext context{Host(host), c->rank, c->world_size, c->local_rank, c->local_size, {}};
          if (c->store != nullptr) context.store.emplace(c->store);
          *self = new T(Config(config), context);
        });
      },
      [](void* self) { delete static_cast<T*>(self); },
      [](void* self, mgt_str name, const uint32_t* ranks, uint32_t count, void** group) {
        return guarded([&] {
          *group = static_cast<T*>(self)->group(from_abi(name), {ranks, count}).release();
        });
      },
      [](void*, void* group) { delete static_cast<CommGroup*>(group); },
      [](void* self, uint64_t bytes, void** out) {
        return guarded([&] { *out = static_cast<T*>(self)->allocate(bytes); });
      },
      [](void* self, void* memory) { static_cast<T*>(self)->free(memory); },
      [](void* group, const mgt_collective* operations, uint64_t count, void** request) {
        return guarded([&] {
          *request = static_cast<CommGroup*>(group)->start({operations, count}).release();
        });
      },
      [](void*, void* request) {
        return guarded([&] {
          const std::unique_ptr<CommRequest> owned(static_cast<CommRequest*>(request));
          owned->wait();
        });
      },
      [](void* self, mgt_str reason) { static_cast<T*>(self)->abort(from_abi(reason)); }};
  return &table;
}

}  // namespace megatron
