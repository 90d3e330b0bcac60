// MEGATRON_PLUGIN: the last lines of every plugin. It writes the ELF note and the one exported
// symbol.
//
//   constexpr megatron::Option kOptions[] = {
//       megatron::option("beta1", MGT_OPTION_FLOAT, "0.9", "…")};
//   MEGATRON_PLUGIN(mgt_optimizer, "0.1.0", .description = "AdamW.", .options = kOptions,
//                   .table = megatron::optimizer_table<AdamW>());
//
// MEGATRON_PLUGIN_KIND and MEGATRON_PLUGIN_NAME come from megatron_add_plugin(), so that the note,
// the file name and the table cannot disagree.
#pragma once

#include <span>
#include <string_view>

#include "megatron/abi/plugin.h"
#include "megatron/host.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define MGT_BUILD_SANITIZER MGT_BUILD_ASAN
#elif defined(__SANITIZE_THREAD__)
#define MGT_BUILD_SANITIZER MGT_BUILD_TSAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MGT_BUILD_SANITIZER MGT_BUILD_ASAN
#elif __has_feature(thread_sanitizer)
#define MGT_BUILD_SANITIZER MGT_BUILD_TSAN
#endif
#endif
#ifndef MGT_BUILD_SANITIZER
#define MGT_BUILD_SANITIZER 0u
#endif
#ifdef NDEBUG
#define MGT_BUILD_ASSERTS MGT_BUILD_NDEBUG
#else
#define MGT_BUILD_ASSERTS 0u
#endif
#ifdef __clang__
#define MGT_BUILD_COMPILER MGT_BUILD_CLANG
#define MGT_COMPILER_TEXT "clang " __clang_version__
#else
#define MGT_BUILD_COMPILER 0u
#define MGT_COMPILER_TEXT "g++ " __VERSION__
#endif

namespace megatron {

// What an author fills in; `Table` is mgt_model, mgt_optimizer, ….
template <class Table>
struct PluginDescription {
  std::string_view version;
  std::string_view description;
  std::span<const Option> options = {};
  const Table* table = nullptr;
};

template <class Table>
struct KindOf;
#define MGT_KIND_OF(type, value)            \
  template <>                               \
  struct KindOf<type> {                     \
    static constexpr mgt_kind kind = value; \
  }

namespace detail {
template <size_t N>
constexpr void copy_text(char (&out)[N], std::string_view s) {
  for (size_t i = 0; i + 1 < N && i < s.size(); ++i) out[i] = s[i];
}
constexpr mgt_note make_note(mgt_kind kind, mgt_tier tier, std::string_view name,
                             std::string_view version) {
  mgt_note note{};
  note.name_size = sizeof(MGT_NOTE_OWNER);
  note.desc_size = sizeof(mgt_note_desc);
  note.type = MGT_NOTE_TYPE;
  copy_text(note.owner, MGT_NOTE_OWNER);
  note.desc.struct_size = sizeof(mgt_note_desc);
  note.desc.abi_major = MGT_ABI_MAJOR;
  note.desc.abi_minor = MGT_ABI_MINOR;
  note.desc.tier = tier;
  note.desc.kind = kind;
  note.desc.build_flags = MGT_BUILD_SANITIZER | MGT_BUILD_ASSERTS | MGT_BUILD_COMPILER;
  copy_text(note.desc.name, name);
  copy_text(note.desc.version, version);
  copy_text(note.desc.sdk_version, MGT_SDK_VERSION);
  copy_text(note.desc.compiler, MGT_COMPILER_TEXT);
  return note;
}
}  // namespace detail
}  // namespace megatron

// The variadic arguments are designated initialisers of PluginDescription.
#define MEGATRON_PLUGIN(table_type, version_text, ...)                                            \
  static_assert(::megatron::KindOf<table_type>::kind == MEGATRON_PLUGIN_KIND,                     \
                "the table's type and the KIND given to megatron_add_plugin() disagree");         \
  __attribute__((section(MGT_NOTE_SECTION), used,                                                 \
                 aligned(4))) static constexpr mgt_note megatron_plugin_note =                    \
      ::megatron::detail::make_note(MEGATRON_PLUGIN_KIND, MEGATRON_PLUGIN_TIER,                   \
                                    MEGATRON_PLUGIN_NAME, version_text);                          \
  extern "C" __attribute__((visibility("default"))) mgt_status* megatron_plugin_entry(            \
      const mgt_host* host, const mgt_plugin** out) {                                             \
    return ::megatron::guarded([&] {                                                              \
      static_cast<void>(host);                                                                    \
      static const ::megatron::PluginDescription<table_type> description{.version = version_text, \
                                                                         __VA_ARGS__};            \
      static const mgt_plugin plugin{sizeof(mgt_plugin),                                          \
                                     MEGATRON_PLUGIN_KIND,                                        \
                                     ::megatron::to_abi(std::string_view(MEGATRON_PLUGIN_NAME)),  \
                                     ::megatron::to_abi(description.version),                     \
                                     ::megatron::to_abi(description.description),                 \
                                     description.options.data(),                                  \
                                     description.options.size(),                                  \
                                     description.table};                                          \
      *out = &plugin;                                                                             \
    });                                                                                           \
  }                                                                                               \
  static_assert(true, "require a semicolon")
