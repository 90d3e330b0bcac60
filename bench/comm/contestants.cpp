#include "comm/contestants.hpp"

#include <mpi.h>

#include <cstdlib>
#include <cstring>

#include "megatron/status.hpp"

namespace megatron::bench {
namespace {

// Page-aligned and touched: nobody pays for page faults.
std::shared_ptr<float> buffer(uint64_t elements) {
  const size_t bytes = (elements * sizeof(float) + 4095) / 4096 * 4096;
  std::shared_ptr<float> out(static_cast<float*>(std::aligned_alloc(4096, bytes)), &std::free);
  std::memset(out.get(), 0, bytes);
  return out;
}

Contestant own(test::Rank& rank, const test::GroupHandle& group, std::string name, float* x) {
  const uint32_t n = rank.size(), me = rank.rank();
  return {std::move(name), [=, &group](Kind kind, uint64_t elements) -> std::function<void()> {
            const uint64_t block = elements / n;
            mgt_collective o;
            switch (kind) {
              case Kind::all_reduce:
                o = test::operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x, x, elements);
                break;
              case Kind::reduce_scatter:
                o = test::operation(MGT_REDUCE_SCATTER, MGT_DTYPE_F32, x, x + me * block, block);
                break;
              case Kind::all_gather:
                o = test::operation(MGT_ALL_GATHER, MGT_DTYPE_F32, x + me * block, x, block);
                break;
            }
            return [=, &group, operations = std::vector<mgt_collective>{o}] {
              const Status s = group.run(operations);
              MGT_CHECK(s.ok(), s.message());
            };
          }};
}

}  // namespace

std::vector<Contestant> own_contestants(test::Rank& rank, const test::GroupHandle& group,
                                        uint64_t max_elements) {
  static std::shared_ptr<float> plain;
  plain = buffer(max_elements);
  std::vector<Contestant> out;
  out.push_back(own(rank, group, "ucx, allocated", rank.allocate<float>(max_elements)));
  out.push_back(own(rank, group, "ucx, plain", plain.get()));
  return out;
}

Contestant mpi_contestant(uint64_t max_elements) {
  const auto x = buffer(max_elements), y = buffer(max_elements);
  return {"Open MPI", [=](Kind kind, uint64_t elements) -> std::function<void()> {
            int n = 0;
            MPI_Comm_size(MPI_COMM_WORLD, &n);
            const int count = static_cast<int>(elements), block = count / n;
            switch (kind) {
              case Kind::all_reduce:
                return [=] {
                  MPI_Allreduce(MPI_IN_PLACE, x.get(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                };
              case Kind::reduce_scatter:
                return [=] {
                  MPI_Reduce_scatter_block(x.get(), y.get(), block, MPI_FLOAT, MPI_SUM,
                                           MPI_COMM_WORLD);
                };
              default:
                return [=] {
                  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x.get(), block, MPI_FLOAT,
                                MPI_COMM_WORLD);
                };
            }
          }};
}

}  // namespace megatron::bench
