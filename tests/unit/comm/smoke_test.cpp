#include <gtest/gtest.h>
#include "unit/comm/world.hpp"
namespace megatron::test {
TEST(Smoke, AllReduce) {
  for (uint32_t n : {1u, 2u, 3u, 4u}) {
    expect_all_pass({.ranks = n}, [](Rank& r) {
      auto g = r.group("world");
      for (size_t count : {0ul, 1ul, 1000ul, 100003ul, 3000001ul}) {
        for (bool shared : {false, true}) {
          std::vector<float> plain(count + 1);
          float* x = shared ? r.allocate<float>(count + 1) : plain.data();
          for (size_t i = 0; i < count; ++i) x[i] = float(r.rank() + 1) * float(i % 7);
          const Status s = g.run({operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x, x, count)});
          ASSERT_TRUE(s.ok()) << s.message();
          const float k = float(r.size() * (r.size() + 1) / 2);
          for (size_t i = 0; i < count; ++i) ASSERT_EQ(x[i], k * float(i % 7)) << i;
        }
      }
      const Status s = g.run({operation(MGT_BARRIER, 0, nullptr, nullptr, 0)});
      ASSERT_TRUE(s.ok()) << s.message();
    });
  }
}
}
