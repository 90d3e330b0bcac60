#include "config/problems.hpp"

#include <algorithm>
#include <tuple>

namespace megatron::config {

void Problems::add(const Origin& origin, std::string_view fact, std::string_view cause,
                   std::string_view action) {
  const Status status = invalid_argument(text(location(origin), ": ", fact), cause, action);
  entries_.push_back({origin, std::string(status.message())});
}

void Problems::add(const Status& status) {
  if (!status.ok()) entries_.push_back({{}, std::string(status.message())});
}

Status Problems::status() const {
  if (entries_.empty()) return {};
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  // What has no line comes last, in the order of discovery.
  const auto key = [](const Entry* entry) {
    const Origin& origin = entry->origin;
    const bool in_file = origin.kind == Origin::Kind::file;
    return std::tuple(!in_file, in_file ? origin.file->name : std::string(), origin.line,
                      origin.column);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Entry* a, const Entry* b) { return key(a) < key(b); });
  std::string all;
  for (const Entry* entry : order) {
    if (!all.empty()) all += '\n';
    all += entry->message;
  }
  return {Code::invalid_argument, std::move(all)};
}

}  // namespace megatron::config
