#include "train/run_request.hpp"

#include "train/sections.hpp"

namespace megatron::train {
namespace {

constexpr int64_t kMaxMicroBatches = int64_t{1} << 16;  // of a data rank in a step

Result<LrSchedule> lr_schedule(const config::Section& o, int64_t global_batch,
                               int64_t train_iters) {
  LrSchedule s;
  MGT_ASSIGN_OR_RETURN(s.style, parse_lr_decay_style(o.get<std::string>("lr_decay_style")));
  MGT_ASSIGN_OR_RETURN(s.wsd_style,
                       parse_wsd_decay_style(o.get<std::string>("lr_wsd_decay_style")));
  s.max = o.get<double>("lr");
  s.min = o.get<double>("min_lr");
  s.init = o.get<double>("lr_warmup_init");
  const int64_t decay_iters =
      o.get<int64_t>("lr_decay_iters") > 0 ? o.get<int64_t>("lr_decay_iters") : train_iters;
  s.decay_samples = decay_iters * global_batch;
  const double fraction = o.get<double>("lr_warmup_fraction");
  const int64_t warmup_iters = o.get<int64_t>("lr_warmup_iters");
  if (fraction > 0 && warmup_iters > 0) {
    return invalid_argument(text(o.describe("lr_warmup_fraction"), ": the warm-up is given twice"),
                            text("lr_warmup_iters is ", warmup_iters),
                            "set one of lr_warmup_fraction and lr_warmup_iters");
  }
  s.warmup_samples = fraction > 0
                         ? static_cast<int64_t>(fraction * static_cast<double>(s.decay_samples))
                         : warmup_iters * global_batch;
  s.wsd_decay_samples = o.get<int64_t>("lr_wsd_decay_iters") * global_batch;
  if (s.min > s.max)
    return invalid_argument(o.describe("min_lr"), text("it exceeds lr = ", s.max),
                            "lower min_lr or raise lr");
  if (s.init > s.max)
    return invalid_argument(o.describe("lr_warmup_init"), text("it exceeds lr = ", s.max),
                            "lower lr_warmup_init or raise lr");
  if (s.warmup_samples >= s.decay_samples && s.warmup_samples > 0) {
    return invalid_argument(
        o.describe(fraction > 0 ? "lr_warmup_fraction" : "lr_warmup_iters"),
        text("the warm-up takes ", s.warmup_samples, " samples, the whole decay ", s.decay_samples),
        "shorten the warm-up");
  }
  if (s.style == LrDecayStyle::wsd && s.wsd_decay_samples == 0) {
    return invalid_argument(o.describe("lr_decay_style"), "WSD needs the length of its last phase",
                            "set optimizer.lr_wsd_decay_iters");
  }
  if (s.style == LrDecayStyle::wsd && s.wsd_decay_samples > s.decay_samples) {
    return invalid_argument(o.describe("lr_wsd_decay_iters"),
                            text("the last phase takes ", s.wsd_decay_samples,
                                 " samples, the whole decay ", s.decay_samples),
                            "shorten the last phase");
  }
  return s;
}

Result<WeightDecaySchedule> weight_decay_schedule(const config::Section& o, int64_t global_batch,
                                                  int64_t train_iters) {
  WeightDecaySchedule s;
  MGT_ASSIGN_OR_RETURN(s.style,
                       parse_weight_decay_style(o.get<std::string>("weight_decay_incr_style")));
  const double constant = o.get<double>("weight_decay");
  s.start = o.has("start_weight_decay") ? o.get<double>("start_weight_decay") : constant;
  s.end = o.has("end_weight_decay") ? o.get<double>("end_weight_decay") : constant;
  s.samples = train_iters * global_batch;
  if (s.style == WeightDecayStyle::constant && s.start != s.end) {
    return invalid_argument(o.describe("weight_decay_incr_style"),
                            text("weight decay starts at ", s.start, " and ends at ", s.end),
                            "choose linear or cosine, or leave start_ and end_weight_decay out");
  }
  return s;
}

}  // namespace

int64_t data_ranks(const passes::Layout& layout) {
  const auto axis = layout.axis(instance_axis(layout));
  return axis ? layout.axes[*axis].size : 1;
}
int64_t data_rank(const passes::Layout& layout, int64_t rank) {
  const auto axis = layout.axis(instance_axis(layout));
  return axis ? layout.coordinates(rank)[*axis] : 0;
}

Result<LoopOptions> loop_options(const Experiment& experiment, const passes::Layout& layout) {
  const auto& train = experiment.config().section("train");
  const auto& optimizer = experiment.config().section("optimizer");
  LoopOptions o;
  o.train_iters = train.get<int64_t>("train_iters");
  o.micro_batch_size = train.get<int64_t>("micro_batch_size");
  o.global_batch_size = train.get<int64_t>("global_batch_size");
  const int64_t ranks = data_ranks(layout);
  if (o.global_batch_size == 0) o.global_batch_size = o.micro_batch_size * ranks;
  if (o.global_batch_size % (o.micro_batch_size * ranks) != 0) {
    return invalid_argument(
        train.describe("global_batch_size"),
        ranks == 1
            ? text("it is not a multiple of micro_batch_size = ", o.micro_batch_size)
            : text("it is not a multiple of micro_batch_size · data ranks = ", o.micro_batch_size,
                   " · ", ranks),
        "change one of them");
  }
  if (o.global_batch_size > kMaxBatch) {
    return invalid_argument(train.describe("micro_batch_size"),
                            text("over ", ranks, " data ranks the global batch is ",
                                 o.global_batch_size, "; at most ", kMaxBatch),
                            "lower it, or the number of data ranks");
  }
  const int64_t micro_batches = o.global_batch_size / (o.micro_batch_size * ranks);
  if (micro_batches > kMaxMicroBatches) {
    return invalid_argument(train.describe("global_batch_size"),
                            text("a step would take ", micro_batches,
                                 " micro-batches of a data rank; at most ", kMaxMicroBatches),
                            "raise micro_batch_size or the data ranks, or lower global_batch_size");
  }
  o.clip_grad = optimizer.get<double>("clip_grad");
  MGT_ASSIGN_OR_RETURN(o.lr, lr_schedule(optimizer, o.global_batch_size, o.train_iters));
  MGT_ASSIGN_OR_RETURN(o.weight_decay,
                       weight_decay_schedule(optimizer, o.global_batch_size, o.train_iters));
  o.eval_interval = train.get<int64_t>("eval_interval");
  o.eval_iters = train.get<int64_t>("eval_iters");
  o.save_interval = experiment.config().section("checkpoint").get<int64_t>("save_interval");
  return o;
}

Result<RankRequest> rank_request(Experiment& experiment, const passes::Layout& layout,
                                 const LoopOptions& loop) {
  RankRequest request;
  MGT_ASSIGN_OR_RETURN(request.model, experiment.model());
  MGT_ASSIGN_OR_RETURN(request.optimizer, experiment.optimizer());
  request.layout = layout;
  request.micro_batch_size = loop.micro_batch_size;
  request.micro_batches = loop.global_batch_size / loop.micro_batch_size / data_ranks(layout);
  request.evaluate = loop.eval_iters > 0;
  return request;
}

Result<RunData> open_datasets(Experiment& experiment, const LoopOptions& loop,
                              const std::vector<Field>& fields) {
  RunData data;
  MGT_ASSIGN_OR_RETURN(
      data.train, experiment.dataset("train", loop.train_iters * loop.global_batch_size, fields));
  if (loop.eval_iters == 0) return data;
  MGT_ASSIGN_OR_RETURN(
      data.valid, experiment.dataset("valid", loop.eval_iters * loop.global_batch_size, fields));
  return data;
}

}  // namespace megatron::train
