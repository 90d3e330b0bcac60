#include "train/sections.hpp"

#include "megatron/host.hpp"
#include "train/lr_schedule.hpp"

namespace megatron::train {

using config::Presence;
using config::Schema;
using config::SectionSchema;

namespace {

// No run comes near them.
constexpr double kMaxIterations = 1e10;
constexpr double kMaxVocabularyMultiple = 1 << 20;

Schema train_keys() {
  return Schema::of({
      option("train_iters", MGT_OPTION_INT, "", "iterations (optimizer steps)")
          .required()
          .at_least(1)
          .at_most(kMaxIterations),
      option("micro_batch_size", MGT_OPTION_INT, "1", "sequences that one rank computes at a time")
          .at_least(1)
          .at_most(static_cast<double>(kMaxBatch)),
      option("global_batch_size", MGT_OPTION_INT, "0",
             "sequences of an iteration; 0 = micro_batch_size")
          .at_least(0)
          .at_most(static_cast<double>(kMaxBatch)),
      option("seed", MGT_OPTION_INT, "1234", "of weights, dropout and data order").at_least(0),
      option("log_interval", MGT_OPTION_INT, "100", "iterations between console lines").at_least(1),
      option("eval_interval", MGT_OPTION_INT, "1000",
             "iterations between evaluations; 0 = at the end only")
          .at_least(0),
      option("eval_iters", MGT_OPTION_INT, "100", "global batches of an evaluation; 0 = none")
          .at_least(0)
          .at_most(kMaxIterations),
      option("output_dir", MGT_OPTION_PATH, "",
             "folder of the run's files; default: runs/<manifest's name>"),
      option("num_threads", MGT_OPTION_INT, "0", "compute threads; 0 = one a CPU")
          .at_least(0)
          .at_most(8192),  // the most CPUs that a Linux kernel is built for
  });
}

Schema optimizer_keys() {
  return Schema::of({
      option("plugin", MGT_OPTION_STRING, "\"adamw\"", "optimizer plugin"),
      option("lr", MGT_OPTION_FLOAT, "", "highest learning rate").required().at_least(0),
      option("min_lr", MGT_OPTION_FLOAT, "0.0", "learning rate after the decay").at_least(0),
      option("lr_decay_style", MGT_OPTION_STRING, "\"linear\"", "shape of the decay")
          .one_of(kLrDecayStyles),
      option("lr_decay_iters", MGT_OPTION_INT, "0", "iterations until min_lr; 0 = train_iters")
          .at_least(0)
          .at_most(kMaxIterations),
      option("lr_warmup_iters", MGT_OPTION_INT, "0", "iterations of linear warm-up")
          .at_least(0)
          .at_most(kMaxIterations),
      option("lr_warmup_fraction", MGT_OPTION_FLOAT, "0.0", "warm-up as a part of lr_decay_iters")
          .at_least(0)
          .at_most(1),
      option("lr_warmup_init", MGT_OPTION_FLOAT, "0.0", "learning rate at the start of the warm-up")
          .at_least(0),
      option("lr_wsd_decay_iters", MGT_OPTION_INT, "0", "iterations of the last phase of WSD")
          .at_least(0)
          .at_most(kMaxIterations),
      option("lr_wsd_decay_style", MGT_OPTION_STRING, "\"exponential\"",
             "shape of the last phase of WSD")
          .one_of(kWsdDecayStyles),
      option("weight_decay", MGT_OPTION_FLOAT, "0.01", "decoupled weight decay").at_least(0),
      option("start_weight_decay", MGT_OPTION_FLOAT, "",
             "weight decay at the first iteration; default: weight_decay")
          .at_least(0),
      option("end_weight_decay", MGT_OPTION_FLOAT, "",
             "weight decay at the last iteration; default: weight_decay")
          .at_least(0),
      option("weight_decay_incr_style", MGT_OPTION_STRING, "\"constant\"",
             "from start_ to end_weight_decay")
          .one_of(kWeightDecayStyles),
      option("clip_grad", MGT_OPTION_FLOAT, "1.0",
             "largest global norm of the gradient; 0 = no clipping")
          .at_least(0),
  });
}

}  // namespace

std::vector<SectionSchema> experiment_sections(bool several_ranks) {
  return {
      {.name = "train", .keys = train_keys()},
      {.name = "model",
       .keys = Schema::of({
           option("plugin", MGT_OPTION_STRING, "", "model plugin").required(),
           option("make_vocab_size_divisible_by", MGT_OPTION_INT, "128",
                  "rows of the embedding in memory; the padding takes no part in anything")
               .at_least(1)
               .at_most(kMaxVocabularyMultiple),
       })},
      {.name = "tokenizer",
       .presence = Presence::optional,
       .keys =
           Schema::of({option("plugin", MGT_OPTION_STRING, "", "tokenizer plugin").required()})},
      {.name = "data",
       .keys = Schema::of({option("plugin", MGT_OPTION_STRING, "", "dataset plugin").required(),
                           option("cache_dir", MGT_OPTION_PATH, "",
                                  "folder of index caches; default: beside the data")})},
      {.name = "optimizer", .keys = optimizer_keys()},
      {.name = "checkpoint",
       .keys = Schema::of({
           option("save", MGT_OPTION_BOOL, "true", "write checkpoints below output_dir"),
           option("save_interval", MGT_OPTION_INT, "0",
                  "iterations between checkpoints; 0 = at the end only")
               .at_least(0),
           option("keep", MGT_OPTION_INT, "0", "newest checkpoints to keep; 0 = all").at_least(0),
           option("load", MGT_OPTION_PATH, "",
                  "checkpoint folder, or a folder of them, to start from"),
       })},
      {.name = "device",
       .keys = Schema::of({option("plugin", MGT_OPTION_STRING, "\"cpu\"", "device plugin")})},
      {.name = "parallel",
       .presence = Presence::repeated,
       .keys =
           Schema::of({option("plugin", MGT_OPTION_STRING, "", "parallelism plugin").required()})},
      {.name = "comm",
       .presence = several_ranks ? Presence::always : Presence::optional,
       .keys =
           Schema::of({option("plugin", MGT_OPTION_STRING, "\"ucx\"", "communication back end")})},
  };
}

}  // namespace megatron::train
