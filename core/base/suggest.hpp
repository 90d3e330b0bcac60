// Near names for "did you mean": every message about an unknown name offers one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megatron {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal
// string alignment). Letter case and '-' against '_' count as equal.
size_t edit_distance(std::string_view a, std::string_view b);

// Candidates that a typo explains, nearest first, at most `limit`; after them those that contain
// `name` as a part ("batch_size" -> "global_batch_size"). Empty when nothing is near.
std::vector<std::string> near_names(std::string_view name, std::span<const std::string> candidates,
                                    size_t limit = 3);
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

// "a, b, c" with each name in `quote`s; an empty list reads "none".
std::string list_names(std::span<const std::string> names, std::string_view quote = "'");

}  // namespace megatron
