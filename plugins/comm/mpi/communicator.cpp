#include "communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime.hpp"

namespace megatron::mpi {
namespace {

// A unit that takes longer than this says in the store that its rank is there.
constexpr auto kLate = std::chrono::milliseconds(500);
// For the announcement of each rank when a report is written.
constexpr uint64_t kAnswerMs = 100;

}  // namespace

class MpiGroup final : public CommGroup {
 public:
  MpiGroup(Progress& progress, std::string name, std::vector<uint32_t> ranks, uint32_t self,
           uint32_t serial, std::chrono::milliseconds timeout)
      : progress_(progress),
        name_(std::move(name)),
        ranks_(std::move(ranks)),
        self_(self),
        serial_(serial),
        timeout_(timeout) {
    const std::vector<int> members(ranks_.begin(), ranks_.end());
    MPI_Group world, own;
    progress_.locked([&] {
      MPI_Comm_group(MPI_COMM_WORLD, &world);
      MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &own);
      const int code =
          MPI_Comm_create_group(MPI_COMM_WORLD, own, static_cast<int>(serial_), &communicator_);
      MPI_Group_free(&own);
      MPI_Group_free(&world);
      if (code != MPI_SUCCESS)
        throw StatusError(mpi_error(text("group '", name_, "' cannot be created"), code));
      MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
    });
  }
  ~MpiGroup() override {
    if (progress_.failed()) return;  // it would wait for the others
    progress_.locked([&] { MPI_Comm_free(&communicator_); });
  }

  std::unique_ptr<CommRequest> start(std::span<const mgt_collective> operations) override;

  const std::string& name() const { return name_; }
  const std::vector<uint32_t>& ranks() const { return ranks_; }
  uint32_t self() const { return self_; }
  std::string key(uint64_t sequence, uint32_t rank) const {
    return text("comm.mpi/", serial_, "/", name_, "/", sequence, "/", rank);
  }

 private:
  Progress& progress_;
  std::string name_;
  std::vector<uint32_t> ranks_;
  uint32_t self_, serial_;
  std::chrono::milliseconds timeout_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  uint64_t sequence_ = 0;
};

namespace {

class Request final : public CommRequest {
 public:
  Request(Progress& progress, std::shared_ptr<Unit> unit)
      : progress_(progress), unit_(std::move(unit)) {}
  void wait() override { progress_.wait(unit_); }

 private:
  Progress& progress_;
  std::shared_ptr<Unit> unit_;
};

}  // namespace

std::unique_ptr<CommRequest> MpiGroup::start(std::span<const mgt_collective> operations) {
  if (progress_.failed()) {
    throw StatusError(
        Status::error(Code::failed_precondition,
                      text("group '", name_, "' is unusable since a former operation failed"),
                      "MPI does not recover from a failure", "end the run, or start it again"));
  }
  const auto now = comm::Clock::now();
  const auto n = static_cast<uint32_t>(ranks_.size());
  auto unit = std::make_shared<Unit>();
  unit->group = this;
  for (const auto& c : operations) {
    auto& item = unit->items.emplace_back();
    throw_if_error(comm::fill_operation(item.operation, c, name_, n, self_, timeout_, now));
    item.run = std::make_unique<MpiOperation>(item.operation, communicator_, n, self_);
  }
  progress_.locked([&] {
    // All recvs before the sends: what comes then needs no copy.
    for (const bool receiving : {true, false}) {
      for (auto& item : unit->items) {
        if ((item.operation.kind == MGT_RECV) != receiving) continue;
        if (!item.operation.point_to_point()) item.sequence = sequence_++;
        throw_if_error(item.run->start());
      }
    }
    progress_.add(unit);
  });
  return std::make_unique<Request>(progress_, std::move(unit));
}

MpiCommunicator::MpiCommunicator(const Config& config, const CommContext& context)
    : rank_(context.rank),
      store_(context.store),
      timeout_(static_cast<int64_t>(config.number("timeout") * 1000)),
      progress_([this](Unit& unit) { return look_at(unit); }) {
  throw_if_error(Runtime::start(context.rank, context.world_size));
}

MpiCommunicator::~MpiCommunicator() {
  if (!progress_.failed()) progress_.locked([] { Runtime::finish(); });
}

std::unique_ptr<CommGroup> MpiCommunicator::group(std::string_view name,
                                                  std::span<const uint32_t> ranks) {
  const uint32_t serial = groups_++;
  const auto self = std::find(ranks.begin(), ranks.end(), rank_);
  if (self == ranks.end()) {
    throw StatusError(invalid_argument(text("rank ", rank_, " cannot create group '", name, "'"),
                                       "it is not a member",
                                       "every rank creates the group that it belongs to"));
  }
  return std::make_unique<MpiGroup>(progress_, std::string(name),
                                    std::vector<uint32_t>(ranks.begin(), ranks.end()),
                                    static_cast<uint32_t>(self - ranks.begin()), serial, timeout_);
}

void* MpiCommunicator::allocate(uint64_t bytes) {
  const uint64_t size = std::max<uint64_t>((bytes + 4095) / 4096 * 4096, 4096);
  void* memory = std::aligned_alloc(4096, size);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, size);
  return memory;
}
void MpiCommunicator::free(void* memory) noexcept { std::free(memory); }

// MPI does not say who is missing. So a rank whose operation takes long says in the store that it
// is there, and which one it means; the report reads what the others said.
Status MpiCommunicator::look_at(Unit& unit) {
  const auto& group = *static_cast<const MpiGroup*>(unit.group);
  const auto now = comm::Clock::now();
  for (auto& item : unit.items) {
    const auto& o = item.operation;
    if (item.complete) continue;
    const auto start = o.deadline - o.timeout;
    const bool collective = !o.point_to_point();
    if (collective && store_ && !item.announced && now - start > std::min(kLate, o.timeout / 2)) {
      store_->set(group.key(item.sequence, rank_), comm::signature_text(o));
      item.announced = true;
    }
    if (o.deadline > now) continue;
    std::vector<uint32_t> arrived = {rank_}, missing;
    for (const uint32_t rank : group.ranks()) {
      if (rank == rank_) continue;
      if (!collective) {
        if (rank == group.ranks()[o.peer]) missing.push_back(rank);
        continue;
      }
      try {
        const std::string theirs = store_->get(group.key(item.sequence, rank), kAnswerMs);
        if (theirs != comm::signature_text(o))
          return comm::mismatch_report(rank_, comm::signature_text(o), rank, theirs);
        arrived.push_back(rank);
      } catch (const StatusError&) {
        missing.push_back(rank);
      }
    }
    std::sort(arrived.begin(), arrived.end());
    return comm::deadline_report(o, group.name(), rank_, arrived, missing);
  }
  return {};
}

}  // namespace megatron::mpi
