#include "comm/timing.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>

namespace megatron::bench {

double largest_of_all_ranks(double x) {
  MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return x;
}

double seconds_each(const std::function<void()>& run, int count) {
  run();  // in step, and warm
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) run();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return largest_of_all_ranks(time.count() / count);
}

int repetitions(const std::function<void()>& run) {
  run();
  const double once = seconds_each(run, 3);
  return static_cast<int>(std::clamp(0.005 / once, 2.0, 5000.0));
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

}  // namespace megatron::bench
