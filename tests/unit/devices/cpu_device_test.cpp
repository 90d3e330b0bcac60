// The device's memory: aligned, zeroed, copied in pieces by all workers; and what it says of
// itself.
#include "cpu_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "unit/devices/pool_host.hpp"

namespace megatron::cpu::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr uint64_t kMebi = uint64_t{1} << 20;

mgt_config automatic() {  // implementation = "auto"
  mgt_config table;
  MGT_INIT(&table);
  table.get = [](const void*, mgt_str, mgt_config_value* out) -> mgt_status* {
    out->type = MGT_OPTION_STRING;
    out->s = {"auto", 4};
    return nullptr;
  };
  return table;
}

class CpuDeviceTest : public ::testing::Test {
 protected:
  PoolHost pool_{3};
  mgt_config config_ = automatic();
  CpuDevice device_{pool_.host(), Config(&config_)};
};

TEST_F(CpuDeviceTest, MemoryIsAlignedAndZeroed) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, 3 * kMebi, 5 * kMebi + 1}) {
    auto* memory = static_cast<unsigned char*>(device_.allocate(bytes));
    const auto alignment = bytes >= 2 * kMebi ? 2 * kMebi : 4096;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0) << bytes;
    EXPECT_TRUE(std::all_of(memory, memory + bytes, [](unsigned char c) { return c == 0; }));
    std::memset(memory, 1, bytes);
    device_.free(memory);
  }
  device_.free(nullptr);
}

TEST_F(CpuDeviceTest, CopiesWhateverTheSize) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{7}, kMebi, kMebi + 1, 5 * kMebi + 13}) {
    std::vector<unsigned char> there(bytes), back(bytes + 1, 0xEE);
    std::ranges::generate(there, std::mt19937(3));
    void* memory = device_.allocate(bytes + 1);
    device_.upload(memory, there.data(), bytes);
    device_.download(back.data(), memory, bytes);
    EXPECT_TRUE(std::equal(there.begin(), there.end(), back.begin())) << bytes;
    EXPECT_EQ(back[bytes], 0xEE);
    static_cast<unsigned char*>(memory)[bytes] = 0xEE;
    device_.zero(memory, bytes);
    device_.download(back.data(), memory, bytes + 1);
    EXPECT_EQ(std::count(back.begin(), back.end(), 0), static_cast<std::ptrdiff_t>(bytes));
    EXPECT_EQ(back[bytes], 0xEE);
    device_.free(memory);
  }
}

TEST_F(CpuDeviceTest, SaysHowMuchItCouldNotGet) {
  try {
    device_.allocate(uint64_t{1} << 60);
    FAIL() << "allocated an exbibyte";
  } catch (const StatusError& e) {
    EXPECT_THAT(std::string(e.status().message()),
                HasSubstr("device 'cpu' cannot allocate 1152921504606846976 bytes"));
  }
}

TEST_F(CpuDeviceTest, NamesProcessorInstructionSetAndThreads) {
  const auto info = device_.info();
  EXPECT_THAT(std::string(info.description), EndsWith(", 3 threads"));
  EXPECT_GT(info.memory_bytes, uint64_t{1} << 28);
}

}  // namespace
}  // namespace megatron::cpu::testing
