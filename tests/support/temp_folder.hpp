// A folder of a test's own: tests run side by side, and none may meet another's files.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "megatron/status.hpp"

namespace megatron::test {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "megatron_test_XXXXXX").string();
    MGT_CHECK(::mkdtemp(pattern.data()) != nullptr, pattern);
    path_ = std::filesystem::canonical(pattern).string();
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return text(path_, "/", name); }

 private:
  std::string path_;
};

}  // namespace megatron::test
