// A validated section: every option of its schemas has a value and an origin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/origin.hpp"
#include "config/schema.hpp"
#include "config/value.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

class Section {
 public:
  struct Entry {
    OptionSpec option = {};
    Value value = {};
    Origin origin = {};
    bool of_plugin = false;
    mutable bool read = false;  // through std::atomic_ref: plugins may read from several threads
  };

  Section(std::string name, bool repeated, std::string plugin, Origin origin)
      : name_(std::move(name)),
        repeated_(repeated),
        plugin_(std::move(plugin)),
        origin_(std::move(origin)) {}

  const std::string& name() const { return name_; }
  bool repeated() const { return repeated_; }            // one of several [[name]]
  const std::string& plugin() const { return plugin_; }  // "" when the section takes none
  const Origin& origin() const { return origin_; }
  const std::vector<Entry>& entries() const { return entries_; }  // in declared order

  // T: bool, int64_t, double, std::string or a std::vector of the last three. Asking for a key that
  // the schemas do not declare, for another type, or for a key without a value is a CHECK failure.
  template <class T>
  const T& get(std::string_view key) const {
    const Entry& entry = read(key);
    const T* value = std::get_if<T>(&entry.value);
    MGT_CHECK(value != nullptr, unreadable(entry));
    return *value;
  }
  // Declared, and has a value (only an optional key without a default has none).
  bool has(std::string_view key) const;
  const Origin& origin(std::string_view key) const;

  // "a.toml:3:5: train.steps = 7": the fact of a message about a value that no schema can check.
  std::string describe(std::string_view key) const;

  // Sets what the host computes; `reason` continues "derived", as in "from the tokenizer". A value
  // given by the user that says otherwise is an error; the schema's range applies.
  Status derive(std::string_view key, Value value, std::string_view reason);

  const Entry* find(std::string_view key) const;
  const Entry& read(std::string_view key) const;  // marks it; CHECKs that it is declared
  void add(Entry entry) { entries_.push_back(std::move(entry)); }

 private:
  std::string unreadable(const Entry& entry) const;

  std::string name_;
  bool repeated_;
  std::string plugin_;
  Origin origin_;
  std::vector<Entry> entries_;
};

}  // namespace megatron::config
