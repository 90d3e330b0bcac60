// What has changed between a configuration that was printed before and one of now.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/manifest.hpp"
#include "config/resolve.hpp"

namespace megatron::config {

// "model.hidden_size = 64, was 32", in the order of `now`, of the keys that `matters` names; then
// those that only `before` has. [[sections]] are passed over.
std::vector<std::string> changes(
    const Manifest& before, const Resolved& now,
    const std::function<bool(const std::string& section, const std::string& key)>& matters);

}  // namespace megatron::config
