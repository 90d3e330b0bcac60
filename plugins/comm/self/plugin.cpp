// One rank: a collective is a copy or nothing, and memory is memory.
#include <cstdlib>
#include <cstring>

#include "megatron/comm.hpp"

namespace {

using namespace megatron;  // NOLINT(google-build-using-namespace): a plugin of one file

class Request final : public CommRequest {
 public:
  explicit Request(Status status) : status_(std::move(status)) {}
  void wait() override { throw_if_error(status_); }

 private:
  Status status_;
};

class Group final : public CommGroup {
 public:
  explicit Group(std::string_view name) : name_(name) {}

  std::unique_ptr<CommRequest> start(std::span<const mgt_collective> operations) override {
    for (const auto& o : operations) throw_if_error(run(o));
    return std::make_unique<Request>(Status());
  }

 private:
  Status run(const mgt_collective& o) const {
    const size_t size = dtype_size(static_cast<DType>(o.dtype));
    uint64_t count = o.count;
    switch (o.kind) {
      case MGT_BARRIER:
      case MGT_BROADCAST:
        return {};
      case MGT_SEND:
      case MGT_RECV:
        return invalid_argument(
            text("'", from_abi(o.name), "' of group '", name_, "' is a message between ranks"),
            "the plugin 'self' serves one rank, which has nobody to talk to",
            "choose another communication plugin, e.g. `[comm] plugin = \"ucx\"`");
      case MGT_ALL_TO_ALL_V:
        if (o.send_counts[0] != o.recv_counts[0]) {
          return invalid_argument(
              text("all_to_all_v '", from_abi(o.name), "' of group '", name_, "' cannot start"),
              text("it sends ", o.send_counts[0], " elements to itself and receives ",
                   o.recv_counts[0]),
              "pass the same count on both sides");
        }
        count = o.send_counts[0];
        break;
      default:
        break;
    }
    if (count > 0 && o.recv != o.send) std::memmove(o.recv, o.send, count * size);
    return {};
  }
  std::string name_;
};

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator(const Config&, const CommContext& context) {
    if (context.world_size == 1) return;
    throw StatusError(Status::error(
        Code::failed_precondition,
        text("the communication plugin 'self' cannot serve ", context.world_size, " ranks"),
        "it has one rank and no way to another",
        "choose `[comm] plugin = \"ucx\"`, or run with one rank"));
  }
  std::unique_ptr<CommGroup> group(std::string_view name, std::span<const uint32_t>) override {
    return std::make_unique<Group>(name);
  }
  void* allocate(uint64_t bytes) override {
    const uint64_t size = (bytes + 4095) / 4096 * 4096;
    void* memory = std::aligned_alloc(4096, size == 0 ? 4096 : size);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, size);
    return memory;
  }
  void free(void* memory) noexcept override { std::free(memory); }
  void abort(std::string_view) noexcept override {}  // nothing ever waits
};

}  // namespace

MEGATRON_PLUGIN(mgt_comm, "0.1.0",
                .description = "One rank: every collective is a copy or nothing.",
                .table = megatron::comm_table<SelfCommunicator>());
