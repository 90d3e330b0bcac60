// The built plugins of this folder's kinds: they load, and their README tells of every option.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "megatron/abi/plugin.h"
#include "unit/data/support.hpp"

namespace megatron {
namespace {

class DataPlugins : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(DataPlugins, LoadsAndIsDocumented) {
  const auto [kind, name] = GetParam();
  const auto file =
      text(MEGATRON_BINARY_DIR "/lib/megatron/plugins/megatron-", kind, "-", name, ".so");
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto entry = reinterpret_cast<mgt_plugin_entry_fn>(::dlsym(library, MGT_PLUGIN_ENTRY));
  ASSERT_NE(entry, nullptr);
  const mgt_plugin* plugin = nullptr;
  const auto status = from_abi(entry(nullptr, &plugin));
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(from_abi(plugin->name), name);
  EXPECT_NE(plugin->table, nullptr);

  const auto readme =
      test::read_file(text(MEGATRON_SOURCE_DIR "/plugins/", kind, "s/", name, "/README.md"));
  ASSERT_NE(readme, "");
  for (uint64_t i = 0; i < plugin->option_count; ++i) {
    const auto& o = plugin->options[i];
    const auto value = (o.flags & MGT_OPTION_REQUIRED) != 0
                           ? std::string("required")
                           : text("`", from_abi(o.default_value), "`");
    EXPECT_THAT(readme, testing::HasSubstr(text("| `", from_abi(o.key), "` | ")));
    EXPECT_THAT(readme, testing::HasSubstr(text(" | ", value, " | ", from_abi(o.doc), " |\n")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, DataPlugins,
                         testing::Values(std::pair{"dataset", "megatron_gpt"},
                                         std::pair{"dataset", "mock"},
                                         std::pair{"tokenizer", "byte"},
                                         std::pair{"tokenizer", "gpt2_bpe"},
                                         std::pair{"tokenizer", "null"}),
                         [](const auto& row) { return std::string(row.param.second); });

}  // namespace
}  // namespace megatron
