#include "mpi_operation.hpp"

#include <algorithm>
#include <limits>

#include "common/reduce.hpp"
#include "runtime.hpp"

namespace megatron::mpi {
namespace {

constexpr uint64_t kMaxCount = std::numeric_limits<int>::max();

}  // namespace

MpiOperation::MpiOperation(const comm::Operation& operation, MPI_Comm communicator, uint32_t ranks,
                           uint32_t rank)
    : o_(operation), communicator_(communicator), n_(ranks), self_(rank) {}

MPI_Datatype MpiOperation::type() const {
  switch (o_.dtype) {
    case MGT_DTYPE_F32:
      return MPI_FLOAT;
    case MGT_DTYPE_F64:
      return MPI_DOUBLE;
    case MGT_DTYPE_I32:
      return MPI_INT32_T;
    case MGT_DTYPE_I64:
      return MPI_INT64_T;
    default:
      return o_.element_size == 2 ? MPI_UINT16_T : MPI_UINT8_T;  // moved, not added up
  }
}

bool MpiOperation::native() const {
  return o_.dtype != MGT_DTYPE_F16 && o_.dtype != MGT_DTYPE_BF16 &&
         !(o_.ordered && o_.reduce == MGT_REDUCE_SUM);
}

MpiOperation::Range MpiOperation::share(uint32_t rank) const {
  if (o_.kind == MGT_REDUCE_SCATTER) return {rank * o_.count, (rank + 1) * o_.count};
  const uint64_t each = (o_.count + n_ - 1) / n_;
  return {std::min(rank * each, o_.count), std::min((rank + 1) * each, o_.count)};
}

Status MpiOperation::start() {
  uint64_t largest = o_.count;
  if (o_.kind == MGT_REDUCE_SCATTER || o_.kind == MGT_ALL_GATHER || o_.kind == MGT_ALL_TO_ALL)
    largest *= n_;
  for (const uint64_t c : o_.send_counts) largest += c;
  if (largest > kMaxCount) {
    return Status::error(Code::unimplemented, text(comm::title(o_), " has ", largest, " elements"),
                         text("MPI counts no further than ", kMaxCount),
                         "split the operation, or choose `[comm] plugin = \"ucx\"`");
  }
  if (o_.point_to_point() && o_.tag > kMaxCount) {
    return Status::error(Code::unimplemented, text(comm::title(o_), " has the tag ", o_.tag),
                         text("MPI has tags up to ", kMaxCount), "use smaller tags");
  }
  if (o_.reduces()) return start_reduce();
  const auto count = static_cast<int>(o_.count);
  const auto peer = static_cast<int>(o_.peer);
  const auto tag = static_cast<int>(o_.tag);
  const void* send = o_.send;
  int code = MPI_SUCCESS;
  switch (o_.kind) {
    case MGT_SEND:
      code = MPI_Isend(send, count, type(), peer, tag, communicator_, &request_);
      break;
    case MGT_RECV:
      code = MPI_Irecv(o_.recv, count, type(), peer, tag, communicator_, &request_);
      break;
    case MGT_BROADCAST:
      code = MPI_Ibcast(o_.recv, count, type(), peer, communicator_, &request_);
      break;
    case MGT_ALL_GATHER:
      if (o_.send == o_.recv + self_ * o_.bytes()) send = MPI_IN_PLACE;
      code = MPI_Iallgather(send, count, type(), o_.recv, count, type(), communicator_, &request_);
      break;
    case MGT_ALL_TO_ALL:
      code = MPI_Ialltoall(send, count, type(), o_.recv, count, type(), communicator_, &request_);
      break;
    case MGT_ALL_TO_ALL_V: {
      int at[2] = {0, 0};
      for (uint32_t i = 0; i < n_; ++i) {
        for (const int side : {0, 1}) {
          counts_[side].push_back(
              static_cast<int>((side == 0 ? o_.send_counts : o_.recv_counts)[i]));
          displacements_[side].push_back(at[side]);
          at[side] += counts_[side].back();
        }
      }
      code = MPI_Ialltoallv(send, counts_[0].data(), displacements_[0].data(), type(), o_.recv,
                            counts_[1].data(), displacements_[1].data(), type(), communicator_,
                            &request_);
      break;
    }
    default:
      code = MPI_Ibarrier(communicator_, &request_);
  }
  return code == MPI_SUCCESS ? Status() : mpi_error(text(comm::title(o_), " does not start"), code);
}

Status MpiOperation::start_reduce() {
  if (!native()) return start_exchange();
  const auto count = static_cast<int>(o_.count);
  const MPI_Op op = o_.reduce == MGT_REDUCE_SUM ? MPI_SUM : MPI_MAX;
  int code = MPI_SUCCESS;
  if (o_.kind == MGT_ALL_REDUCE) {
    const void* send = o_.send == o_.recv ? MPI_IN_PLACE : static_cast<const void*>(o_.send);
    code = MPI_Iallreduce(send, o_.recv, count, type(), op, communicator_, &request_);
  } else {
    // MPI's in-place form puts the result at the start of the buffer; ours is inside it. MPI may
    // not read and write one place, so such a call goes through a copy.
    const void* send = o_.send;
    if (o_.recv >= o_.send && o_.recv < o_.send + n_ * o_.bytes()) {
      shares_.assign(o_.send, o_.send + n_ * o_.bytes());
      send = shares_.data();
    }
    code = MPI_Ireduce_scatter_block(send, o_.recv, count, type(), op, communicator_, &request_);
  }
  return code == MPI_SUCCESS ? Status() : mpi_error(text(comm::title(o_), " does not start"), code);
}

// Everybody's share of this rank comes here.
Status MpiOperation::start_exchange() {
  const Range own = share(self_);
  const auto own_count = static_cast<int>(own.end - own.begin);
  shares_.resize(std::max<uint64_t>(n_ * (own.end - own.begin) * o_.element_size, 1));
  for (uint32_t i = 0; i < n_; ++i) {
    const Range theirs = share(i);
    counts_[0].push_back(static_cast<int>(theirs.end - theirs.begin));
    displacements_[0].push_back(static_cast<int>(theirs.begin));
    counts_[1].push_back(own_count);
    displacements_[1].push_back(own_count * static_cast<int>(i));
  }
  stage_ = Stage::exchange;
  const int code =
      MPI_Ialltoallv(o_.send, counts_[0].data(), displacements_[0].data(), type(), shares_.data(),
                     counts_[1].data(), displacements_[1].data(), type(), communicator_, &request_);
  return code == MPI_SUCCESS ? Status() : mpi_error(text(comm::title(o_), " does not start"), code);
}

void MpiOperation::reduce_share() {
  const Range own = share(self_);
  const uint64_t count = own.end - own.begin;
  std::vector<const std::byte*> sources;
  for (uint32_t i = 0; i < n_; ++i) sources.push_back(shares_.data() + i * count * o_.element_size);
  std::byte* target =
      o_.kind == MGT_REDUCE_SCATTER ? o_.recv : o_.recv + own.begin * o_.element_size;
  comm::reduce({o_.dtype, o_.dtype, o_.reduce, o_.ordered}, sources, {&target, 1}, count);
}

Status MpiOperation::start_gather() {
  stage_ = Stage::gather;
  const int code = MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, o_.recv, counts_[0].data(),
                                   displacements_[0].data(), type(), communicator_, &request_);
  return code == MPI_SUCCESS ? Status() : mpi_error(text(comm::title(o_), " does not start"), code);
}

Result<bool> MpiOperation::test() {
  int complete = 0;
  MPI_Status received;
  const int code = MPI_Test(&request_, &complete, &received);
  if (code != MPI_SUCCESS) return mpi_error(text(comm::title(o_), " failed"), code);
  if (complete == 0) return false;
  if (o_.kind == MGT_RECV) {
    int count = 0;
    MPI_Get_count(&received, type(), &count);
    if (static_cast<uint64_t>(count) != o_.count) {
      return Status::error(Code::failed_precondition,
                           text(comm::title(o_), ": the group's rank ", o_.peer, " sent ", count,
                                " elements, rank ", self_, " expects ", o_.count),
                           text("both messages have the tag ", o_.tag),
                           "every send needs a recv of the same size, in the same order");
    }
  }
  if (stage_ != Stage::exchange) return true;
  reduce_share();
  if (o_.kind == MGT_REDUCE_SCATTER) return true;
  MGT_RETURN_IF_ERROR(start_gather());
  return false;
}

}  // namespace megatron::mpi
