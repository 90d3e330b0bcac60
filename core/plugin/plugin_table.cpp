#include "plugin/plugin_table.hpp"

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "megatron/abi/comm.h"
#include "megatron/abi/dataset.h"
#include "megatron/abi/device.h"
#include "megatron/abi/model.h"
#include "megatron/abi/optimizer.h"
#include "megatron/abi/parallel.h"
#include "megatron/abi/tokenizer.h"
#include "plugin/kind.hpp"

namespace megatron::plugin {
namespace {

// A function pointer of a table. Slots of all tables follow each other behind the two header
// fields.
struct Slot {
  std::string_view name;
  bool optional = false;
};
constexpr size_t kSlotsBegin = 2 * sizeof(uint32_t);  // struct_size, flags

constexpr Slot kModel[] = {{"create"}, {"destroy"}, {"build"}};
constexpr Slot kParallel[] = {{"create"}, {"destroy"}, {"apply"}};
constexpr Slot kOptimizer[] = {{"create"}, {"destroy"}, {"states"}, {"build_update"}};
constexpr Slot kDataset[] = {{"create"}, {"destroy"}, {"size"}, {"read"}};
constexpr Slot kTokenizer[] = {{"create"},         {"destroy"}, {"vocab_size"},
                               {"special_tokens"}, {"encode"},  {"decode"}};
constexpr Slot kComm[] = {{"create"},        {"destroy"},        {"group"},
                          {"release_group"}, {"allocate", true}, {"free", true},
                          {"start"},         {"wait"},           {"abort"}};
constexpr Slot kDevice[] = {{"create"},  {"destroy"}, {"info"},     {"allocate"},
                            {"free"},    {"upload"},  {"download"}, {"zero"},
                            {"prepare"}, {"release"}, {"launch"},   {"synchronize"}};

// A table that grew must grow here too, or be given a smaller required size.
template <class Table, size_t N>
constexpr std::span<const Slot> slots_of(const Slot (&slots)[N]) {
  static_assert(sizeof(Table) == kSlotsBegin + N * sizeof(void (*)()));
  return slots;
}

struct TableRule {
  mgt_kind kind;
  std::string_view type;
  std::span<const Slot> slots;  // those that this host calls: older plugins must have them
};
constexpr TableRule kRules[] = {
    {MGT_KIND_MODEL, "mgt_model", slots_of<mgt_model>(kModel)},
    {MGT_KIND_PARALLEL, "mgt_parallel", slots_of<mgt_parallel>(kParallel)},
    {MGT_KIND_OPTIMIZER, "mgt_optimizer", slots_of<mgt_optimizer>(kOptimizer)},
    {MGT_KIND_DATASET, "mgt_dataset", slots_of<mgt_dataset>(kDataset)},
    {MGT_KIND_TOKENIZER, "mgt_tokenizer", slots_of<mgt_tokenizer>(kTokenizer)},
    {MGT_KIND_COMM, "mgt_comm", slots_of<mgt_comm>(kComm)},
    {MGT_KIND_DEVICE, "mgt_device", slots_of<mgt_device>(kDevice)},
};

Status unusable(std::string_view cause) {
  return Status::error(Code::failed_precondition, "a bug in the plugin", cause,
                       "report it to the plugin's author");
}

Status check_identity(const mgt_plugin& plugin, const mgt_note_desc& note) {
  struct Pair {
    std::string_view field;
    std::string noted;
    std::string returned;
  };
  const Pair pairs[] = {
      {"kind", kind_name(note.kind), kind_name(plugin.kind)},
      {"name", note.name, std::string(from_abi(plugin.name))},
      {"version", note.version, std::string(from_abi(plugin.version))},
  };
  for (const auto& [field, noted, returned] : pairs) {
    if (noted == returned) continue;
    return unusable(
        text("its note says ", field, " '", noted, "', its entry point says '", returned, "'"));
  }
  return {};
}

Status check_table(const void* table, const TableRule& rule) {
  if (table == nullptr) return unusable(text("its ", rule.type, " table is null"));
  uint32_t size = 0;
  std::memcpy(&size, table, sizeof size);
  const size_t required = kSlotsBegin + rule.slots.size() * sizeof(void (*)());
  if (size < required) {
    return unusable(
        text("its ", rule.type, " table has ", size, " bytes, this host needs ", required));
  }
  const auto* slot = static_cast<const std::byte*>(table) + kSlotsBegin;
  for (const Slot& s : rule.slots) {
    void (*function)() = nullptr;
    std::memcpy(&function, slot, sizeof function);
    slot += sizeof function;
    if (function == nullptr && !s.optional)
      return unusable(text("the function '", s.name, "' of its ", rule.type, " table is null"));
  }
  return {};
}

// What the array holds is checked where schemas are read (core/config).
Status check_options(const mgt_plugin& plugin) {
  if (plugin.option_count == 0 || plugin.options != nullptr) return {};
  return unusable(text("it announces ", plugin.option_count, " options, and the array is null"));
}

}  // namespace

Status check_plugin(const mgt_plugin* plugin, const mgt_note_desc& note) {
  if (plugin == nullptr) return unusable("its entry point succeeds and returns no description");
  if (plugin->struct_size < sizeof(mgt_plugin)) {
    return unusable(text("its mgt_plugin has ", plugin->struct_size, " bytes, this host needs ",
                         sizeof(mgt_plugin)));
  }
  MGT_RETURN_IF_ERROR(check_identity(*plugin, note));
  for (const TableRule& rule : kRules)
    if (rule.kind == note.kind) MGT_RETURN_IF_ERROR(check_table(plugin->table, rule));
  return check_options(*plugin);
}

}  // namespace megatron::plugin
