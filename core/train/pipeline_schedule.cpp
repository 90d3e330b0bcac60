#include "train/pipeline_schedule.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace megatron::train {
namespace {

using Kind = PipelineAction::Kind;

// The k-th forward (or backward) pass of a rank: chunks take turns in groups of `stages`
// micro-batches.
PipelineAction pass(const PipelineShape& s, Kind kind, int64_t k) {
  const int64_t group = s.stages * s.chunks;
  const int64_t chunk = k % group / s.stages;
  const int64_t micro_batch = k / group * s.stages + k % s.stages;
  return {kind, kind == Kind::forward ? chunk : s.chunks - 1 - chunk, micro_batch};
}

// Warm-up forward passes, then one forward and one backward in turn, then the backward passes that
// are left.
std::vector<PipelineAction> one_f_one_b(const PipelineShape& s, int64_t rank) {
  const int64_t total = s.micro_batches * s.chunks;
  int64_t warmup = s.stages - rank - 1;
  if (s.kind == ScheduleKind::interleaved) {
    // With one group only, all forward passes come first: the first chunk's next group would never
    // arrive.
    warmup =
        s.micro_batches == s.stages ? total : 2 * (s.stages - rank - 1) + (s.chunks - 1) * s.stages;
  }
  warmup = std::min(warmup, total);
  std::vector<PipelineAction> out;
  for (int64_t k = 0; k < warmup; ++k) out.push_back(pass(s, Kind::forward, k));
  for (int64_t k = warmup; k < total; ++k) {
    out.push_back(pass(s, Kind::forward, k));
    out.push_back(pass(s, Kind::backward, k - warmup));
  }
  for (int64_t k = total - warmup; k < total; ++k) out.push_back(pass(s, Kind::backward, k));
  return out;
}

// Rank r may hold back r weight gradients without needing more memory than rank 0 of 1F1B.
std::vector<PipelineAction> zero_bubble(const PipelineShape& s, int64_t rank) {
  std::vector<PipelineAction> out;
  int64_t backward = 0;
  int64_t weight = 0;
  for (const auto& action : one_f_one_b(s, rank)) {
    out.push_back(action);
    if (action.kind != Kind::backward) continue;
    if (++backward > rank) out.push_back({Kind::weight, 0, weight++});
  }
  while (weight < s.micro_batches) out.push_back({Kind::weight, 0, weight++});
  return out;
}

std::vector<PipelineAction> gpipe(const PipelineShape& s) {
  std::vector<PipelineAction> out;
  for (const Kind kind : {Kind::forward, Kind::backward}) {
    for (int64_t k = 0; k < s.micro_batches; ++k) out.push_back({kind, 0, k});
  }
  return out;
}

}  // namespace

Result<ScheduleKind> parse_schedule(const std::string& name) {
  if (name == "gpipe") return ScheduleKind::gpipe;
  if (name == "1f1b") return ScheduleKind::one_f_one_b;
  if (name == "interleaved") return ScheduleKind::interleaved;
  if (name == "zero_bubble") return ScheduleKind::zero_bubble;
  return invalid_argument(text("there is no pipeline schedule '", name, "'"),
                          "the parallel plugin that cuts the pipeline asks for it",
                          "choose gpipe, 1f1b, interleaved or zero_bubble");
}

Status check_shape(const PipelineShape& s) {
  if (s.chunks > 1 && s.kind != ScheduleKind::interleaved) {
    return invalid_argument(text("the pipeline has ", s.chunks, " virtual stages a rank"),
                            "only the interleaved schedule runs more than 1",
                            "set schedule = \"interleaved\" or virtual_stages = 1");
  }
  if (s.kind == ScheduleKind::interleaved && s.stages > 1 && s.micro_batches % s.stages != 0) {
    return invalid_argument(
        text("a step has ", s.micro_batches, " micro-batches a pipeline and the pipeline ",
             s.stages, " stages"),
        "the interleaved schedule takes micro-batches in groups of as many as there are stages",
        "change global_batch_size or micro_batch_size, or use schedule 1f1b");
  }
  return {};
}

std::vector<PipelineAction> schedule_of(const PipelineShape& shape, int64_t rank) {
  switch (shape.kind) {
    case ScheduleKind::gpipe:
      return gpipe(shape);
    case ScheduleKind::zero_bubble:
      return zero_bubble(shape, rank);
    default:
      return one_f_one_b(shape, rank);
  }
}

int64_t slots_of(const std::vector<PipelineAction>& actions, int64_t chunk) {
  const bool split = std::any_of(actions.begin(), actions.end(),
                                 [](const PipelineAction& a) { return a.kind == Kind::weight; });
  const Kind last = split ? Kind::weight : Kind::backward;
  int64_t alive = 0;
  int64_t most = 0;
  for (const auto& a : actions) {
    if (a.chunk != chunk) continue;
    if (a.kind == Kind::forward) most = std::max(most, ++alive);
    if (a.kind == last) --alive;
  }
  return most;
}

Status check_progress(const PipelineShape& s) {
  std::vector<std::vector<PipelineAction>> lists;
  for (int64_t r = 0; r < s.stages; ++r) lists.push_back(schedule_of(s, r));
  std::vector<size_t> at(lists.size(), 0);
  std::set<std::tuple<Kind, int64_t, int64_t>> done;  // kind, virtual stage, micro-batch
  const int64_t last_stage = s.stages * s.chunks - 1;
  const auto ready = [&](const PipelineAction& a, int64_t stage) {
    if (a.kind == Kind::forward)
      return stage == 0 || done.contains({Kind::forward, stage - 1, a.micro_batch});
    if (!done.contains({Kind::forward, stage, a.micro_batch})) return false;
    if (a.kind == Kind::weight) return done.contains({Kind::backward, stage, a.micro_batch});
    return stage == last_stage || done.contains({Kind::backward, stage + 1, a.micro_batch});
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < lists.size(); ++r) {
      while (at[r] < lists[r].size()) {
        const auto& a = lists[r][at[r]];
        const int64_t stage = a.chunk * s.stages + static_cast<int64_t>(r);
        if (!ready(a, stage)) break;
        done.insert({a.kind, stage, a.micro_batch});
        ++at[r];
        moved = true;
      }
    }
  }
  for (size_t r = 0; r < lists.size(); ++r) {
    if (at[r] == lists[r].size()) continue;
    const auto& a = lists[r][at[r]];
    return Status::error(
        Code::internal,
        text("pipeline rank ", r, " waits for ever before its action ", at[r], " (chunk ", a.chunk,
             ", micro-batch ", a.micro_batch, ")"),
        "the schedule is wrong: ranks wait for each other in a circle (a bug in megatron-host)",
        "choose another schedule, and report this one with the manifest");
  }
  return {};
}

}  // namespace megatron::train
