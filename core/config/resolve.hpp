// Manifest + schemas -> validated values with their origins.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/manifest.hpp"
#include "config/schema.hpp"
#include "config/section.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

class Resolved {
 public:
  // In the order of the schemas; of a [[section]] one each, in the order of the manifest.
  const std::vector<Section>& all() const { return sections_; }
  std::vector<Section>& all() { return sections_; }

  // The section, or nullptr when it is optional and absent. For a [[section]] use named().
  const Section* find(std::string_view name) const;
  Section* find(std::string_view name);
  // The same for a section that is always there: absence is a CHECK failure.
  const Section& section(std::string_view name) const;
  Section& section(std::string_view name);
  std::vector<const Section*> named(std::string_view name) const;

  void add(Section section) { sections_.push_back(std::move(section)); }

 private:
  std::vector<Section> sections_;
};

// Every problem of the manifest is reported, in the order of its lines: unknown sections and keys
// (with near names), wrong types, ranges, choices, missing keys, unknown plugins, and options that
// a plugin declares and the host already has.
Result<Resolved> resolve(const Manifest& manifest, std::span<const SectionSchema> sections);

// The configuration as TOML that resolves to the same values; each line says where its value came
// from. Paths are absolute.
std::string print_config(const Resolved& resolved);

}  // namespace megatron::config
