// Test data that is too large, or too foreign, for the repository.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace megatron::test {

inline std::string shared_dir() {
  if (const char* given = std::getenv("MEGATRON_SHARED_DIR")) return given;
  return std::string(MEGATRON_SOURCE_DIR) + "/../shared";
}
// In a test body: skips, with the reason, where the shared data is absent.
#define MGT_SHARED_FILE(variable, relative)                               \
  const std::string variable = ::megatron::test::shared_dir() + relative; \
  if (!std::filesystem::exists(variable))                                 \
  GTEST_SKIP() << variable << " is absent; set MEGATRON_SHARED_DIR to the shared test data"

}  // namespace megatron::test
