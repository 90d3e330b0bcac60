// What every kernel promises besides its values: the same bits for any number of workers and at
// every launch, and no allocation while it runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/base/allocation_count.hpp"
#include "unit/devices/pool_host.hpp"
#include "unit/devices/run_case.hpp"

namespace megatron::cpu::testing {
namespace {

class PromisesTest : public ::testing::TestWithParam<const OpRow*> {
 protected:
  template <class Body>  // body(case, name of the implementation)
  void for_each(const Body& body) const {
    for (const OpCase& c : op_cases()) {
      if (c.desc.op != GetParam()->op) continue;
      for (const auto& implementation : GetParam()->implementations) {
        SCOPED_TRACE(text(c.name, ", ", implementation.name));
        body(c, implementation.name);
      }
    }
  }
};

TEST_P(PromisesTest, SameBitsForAnyNumberOfWorkersAndAtEveryLaunch) {
  const PoolHost one(1), two(2), three(3), five(5);
  for_each([&](const OpCase& c, std::string_view implementation) {
    if (implementation == "reference") return;  // runs on the calling thread
    const auto want = run(c, implementation, one.host());
    for (const PoolHost* pool : {&two, &three, &five}) {
      PreparedCase prepared(c, implementation, pool->host());
      for (const std::string_view launch : {"first", "second"}) {
        prepared.reset();
        prepared.launch();
        EXPECT_TRUE(same_bits(prepared.outputs(), want))
            << pool->host().workers() << " workers, " << launch << " launch";
      }
    }
  });
}

TEST_P(PromisesTest, LaunchAllocatesNothing) {
  if (allocation_count() == 0) GTEST_SKIP() << "the sanitizer owns malloc";
  const PoolHost pool(3);
  for_each([&](const OpCase& c, std::string_view implementation) {
    PreparedCase prepared(c, implementation, pool.host());
    const auto before = allocation_count();
    prepared.launch();
    EXPECT_EQ(allocation_count() - before, 0);
  });
}

// A NaN is the one sign of a run that went wrong: no kernel may lose it. Where the formula says
// NaN, so must the kernel.
TEST_P(PromisesTest, ANaNReachesWhatDependsOnIt) {
  const PoolHost pool(2);
  for_each([&](const OpCase& c, std::string_view implementation) {
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const size_t n = c.inputs[i].size();
      if (c.desc.inputs[i].dtype != DType::f32 || n == 0 || n > 1500) continue;
      OpCase poisoned = c;
      poisoned.inputs[i][n * 2 / 3] = std::numeric_limits<double>::quiet_NaN();
      const auto want = c.formula(poisoned), got = run(poisoned, implementation, pool.host());
      for (size_t o = 0; o < want.size(); ++o) {
        for (size_t e = 0; e < want[o].size(); ++e) {
          ASSERT_TRUE(!std::isnan(want[o][e]) || std::isnan(got[o][e]))
              << "input " << i << " is NaN, output " << o << " element " << e << " is "
              << got[o][e];
        }
      }
    }
  });
}

std::vector<const OpRow*> rows() {
  std::vector<const OpRow*> out;
  for (const auto& row : op_rows()) out.push_back(&row);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, PromisesTest, ::testing::ValuesIn(rows()),
                         [](const auto& row) { return std::string(row.param->op); });

}  // namespace
}  // namespace megatron::cpu::testing
