// What parallel plugins may say about a layout, and what they are told when it makes no sense.
#include "train/layout_collector.hpp"

#include <gtest/gtest.h>

#include "train/pipeline_schedule.hpp"

namespace megatron::train {
namespace {

struct Call {
  const char* name;
  mgt_status* (*call)(const mgt_layout& layout);
  const char* message;
};

mgt_str str(std::string_view s) { return to_abi(s); }

TEST(LayoutCollector, Messages) {
  const Call calls[] = {
      {"the same axis again",
       [](const mgt_layout& l) { return l.mesh_axis(l.context, str("x"), 2); },
       "two parallel plugins make the mesh axis 'x'\n  a mesh has one axis of a name\n"
       "  fix: name each strategy once in [[parallel]]"},
      {"an axis that nobody made",
       [](const mgt_layout& l) { return l.shard_states(l.context, str("y"), 1); },
       "there is no mesh axis 'y'\n"
       "  the parallel plugin refers to an axis that no plugin has made before\n"
       "  fix: report it to the plugin's author"},
      {"index map",
       [](const mgt_layout& l) { return l.map_axis(l.context, str("seq"), str("x"), 9, 0); },
       "unknown index map number 9\n  this host knows 1 (contiguous) and 2 (balanced)\n"
       "  fix: run a host of the plugin's sdk, or report it to the plugin's author"},
      {"ZeRO stage", [](const mgt_layout& l) { return l.shard_states(l.context, str("x"), 4); },
       "there is no ZeRO stage 4\n  the stages are 0 to 3\n"
       "  fix: report it to the plugin's author"},
      {"attention", [](const mgt_layout& l) { return l.attention(l.context, str("x"), 4); },
       "unknown attention method number 4\n"
       "  this host knows 1 (all-gather), 2 (ring) and 3 (all-to-all)\n"
       "  fix: run a host of the plugin's sdk, or report it to the plugin's author"},
  };
  for (const Call& c : calls) {
    const LayoutCollector collector;
    const mgt_layout& table = *collector.table();
    ASSERT_TRUE(from_abi(table.mesh_axis(table.context, str("x"), 2)).ok());
    EXPECT_EQ(from_abi(c.call(table)).message(), c.message) << c.name;
  }
}

TEST(LayoutCollector, AnAxisWithoutASizeTakesWhatTheOthersLeave) {
  const LayoutCollector collector;
  const mgt_layout& table = *collector.table();
  ASSERT_TRUE(from_abi(table.mesh_axis(table.context, str("x"), 2)).ok());
  // Nobody made a data axis: it is there, outermost.
  const auto layout = collector.finish(8);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  EXPECT_EQ(layout->axes[0].name, "data");
  EXPECT_EQ(layout->axes[0].size, 4);
  EXPECT_EQ(collector.finish({})->world_size(), 2);
  EXPECT_EQ(collector.finish(7).status().message(),
            "the run has 7 ranks, the layout needs a multiple of 2\n  [[parallel]] asks for x 2\n"
            "  fix: start another number of ranks, or change the sizes in [[parallel]]");
  ASSERT_TRUE(from_abi(table.mesh_axis(table.context, str("z"), 0)).ok());
  EXPECT_EQ(collector.finish(8).status().message(),
            "the sizes of the mesh axes 'data' and 'z' are both left open\n"
            "  one axis at most can take what the others leave\n  fix: give one of them a size");
}

TEST(PipelineSchedule, UnknownName) {
  EXPECT_EQ(parse_schedule("2f2b").status().message(),
            "there is no pipeline schedule '2f2b'\n"
            "  the parallel plugin that cuts the pipeline asks for it\n"
            "  fix: choose gpipe, 1f1b, interleaved or zero_bubble");
}

}  // namespace
}  // namespace megatron::train
