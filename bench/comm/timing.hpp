// Timing of collectives: all ranks start together, the slowest one counts.
#pragma once

#include <functional>
#include <vector>

namespace megatron::bench {

// So many that one round takes some 5 ms; the same on all ranks.
int repetitions(const std::function<void()>& run);
// Seconds of one run, of `count` in a row.
double seconds_each(const std::function<void()>& run, int count);
double median(std::vector<double> x);
double largest_of_all_ranks(double x);

}  // namespace megatron::bench
