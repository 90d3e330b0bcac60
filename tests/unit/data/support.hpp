// What the host would supply, made of plain containers, and what tests of files need.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "megatron/dataset.hpp"
#include "megatron/tokenizer.hpp"
#include "support/shared_file.hpp"
#include "support/temp_folder.hpp"

namespace megatron::test {

inline size_t file_count(const TempFolder& folder) {
  size_t n = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    n += entry.is_regular_file();
  return n;
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream contents;
  contents << in.rdbuf();
  return contents.str();
}
inline std::string write_file(const std::string& path, std::string_view contents) {
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

// A section of the manifest: the defaults of a schema, some of them replaced. Values are TOML text.
class TestConfig {
 public:
  TestConfig(std::span<const Option> options, const std::map<std::string, std::string>& given) {
    for (const auto& o : options) {
      const std::string key(from_abi(o.key));
      const auto at = given.find(key);
      std::string value = at != given.end() ? at->second : std::string(from_abi(o.default_value));
      if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
      values_[key] = {o.type, value};
    }
    for (const auto& [key, value] : given) {
      if (!values_.contains(key)) ADD_FAILURE() << "the schema has no key " << key;
    }
    table_ = {sizeof(mgt_config), 0, this, &get};
  }
  TestConfig(const TestConfig&) = delete;
  TestConfig& operator=(const TestConfig&) = delete;
  const mgt_config* table() const { return &table_; }
  operator Config() const { return Config(&table_); }  // NOLINT(google-explicit-constructor)

 private:
  struct Value {
    mgt_option_type type;
    std::string text;
  };
  static mgt_status* get(const void* context, mgt_str key, mgt_config_value* out) {
    const auto& values = static_cast<const TestConfig*>(context)->values_;
    const auto at = values.find(std::string(from_abi(key)));
    if (at == values.end())
      return to_abi(Status(Code::not_found, text("no option ", from_abi(key))));
    out->type = at->second.type;
    out->s = to_abi(at->second.text);
    out->i = at->second.text == "true" ? 1 : std::atoll(at->second.text.c_str());
    out->f = std::atof(at->second.text.c_str());
    return nullptr;
  }
  std::map<std::string, Value> values_;
  mgt_config table_;
};

// Keeps what is logged. Runs tasks one after the other.
class TestHost {
 public:
  TestHost() {
    table_ = {sizeof(mgt_host),
              0,
              MGT_ABI_MAJOR,
              MGT_ABI_MINOR,
              this,
              [](void* context, mgt_log_level, mgt_str line) {
                auto* self = static_cast<TestHost*>(context);
                const std::lock_guard lock(self->mutex_);
                self->log_ += text(from_abi(line), "\n");
              },
              [](void*) { return 1u; },
              [](void*, int64_t tasks, mgt_task_fn fn, void* arg) {
                for (int64_t i = 0; i < tasks; ++i) fn(arg, i, 0);
              },
              [](void*, mgt_str) -> const void* { return nullptr; }};
  }
  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;
  operator Host() const { return Host(&table_); }  // NOLINT(google-explicit-constructor)
  const std::string& log() const { return log_; }

 private:
  mgt_host table_;
  std::mutex mutex_;
  std::string log_;
};

// A tokenizer behind its table, as the host would hold it.
template <class T>
class OwnedTokenizer {
 public:
  OwnedTokenizer(std::span<const Option> options, const std::map<std::string, std::string>& given)
      : config_(options, given), tokenizer_(host_, config_) {}
  TokenizerView view() const { return {tokenizer_table<T>(), &tokenizer_}; }
  const T& operator*() const { return tokenizer_; }
  const T* operator->() const { return &tokenizer_; }

 private:
  TestHost host_;
  TestConfig config_;
  T tokenizer_;
};

// The message of the StatusError that `body` throws.
template <class Body>
std::string thrown(Body&& body) {
  try {
    body();
  } catch (const StatusError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

template <class T>
std::vector<int32_t> encode(const T& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}
template <class T>
std::string decode(const T& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  tokenizer.decode(ids, text);
  return text;
}

}  // namespace megatron::test
