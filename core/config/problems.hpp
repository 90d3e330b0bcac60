// All that is wrong with a manifest, reported together in the order of the files' lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/origin.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

class Problems {
 public:
  // The message starts with the place: "a.toml:3:5: FACT".
  void add(const Origin& origin, std::string_view fact, std::string_view cause,
           std::string_view action);
  void add(const Status& status);  // one that says its place itself

  bool empty() const { return entries_.empty(); }
  // INVALID_ARGUMENT with every message, or OK when there are none.
  Status status() const;

 private:
  struct Entry {
    Origin origin;
    std::string message;
  };
  std::vector<Entry> entries_;
};

}  // namespace megatron::config
