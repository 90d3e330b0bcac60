// A section as a plugin sees it: the C table mgt_config, restricted to the plugin's own options.
#pragma once

#include <string>
#include <vector>

#include "config/section.hpp"
#include "megatron/abi/host.h"

namespace megatron::config {

// Borrows the section. Table and values live as long as both; keep them for the length of the call
// that receives the table (a plugin copies what it needs). get is thread-safe.
class AbiConfig {
 public:
  explicit AbiConfig(const Section& section);
  AbiConfig(const AbiConfig&) = delete;
  AbiConfig& operator=(const AbiConfig&) = delete;

  const mgt_config* table() const { return &table_; }

 private:
  Status get(std::string_view key, mgt_config_value& out) const;

  const Section& section_;
  std::vector<std::vector<mgt_str>> strings_;  // by index of the entry; for lists of strings
  mgt_config table_;
};

}  // namespace megatron::config
