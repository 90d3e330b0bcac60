/* Plugin kind `model`: writes forward programs for one device. C11 and C++20. */
#ifndef MEGATRON_ABI_MODEL_H
#define MEGATRON_ABI_MODEL_H

#include "graph.h"
#include "host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mgt_model_context {
  uint32_t struct_size;
  uint32_t flags;
  int64_t vocab_size; /* of the tokenizer; 0 when the experiment has none */
} mgt_model_context;

/* Which program to write and at which shape. */
typedef struct mgt_program_request {
  uint32_t struct_size;
  uint32_t flags;
  /* "loss": reads fields of the dataset, [batch_size, sample...], and ends in loss terms;
   * "logits": reads "tokens" and "position_ids", i32 [batch_size, seq_length], and has one output,
   * "logits" f32 [batch_size, seq_length, vocab]. The host sets no scalars in either. */
  mgt_str program;
  int64_t batch_size; /* sequences */
  int64_t seq_length; /* tokens; 0 = the model's own seq_length */
} mgt_program_request;

typedef struct mgt_model {
  uint32_t struct_size;
  uint32_t flags;
  /* [main-thread] all */
  mgt_status* (*create)(const mgt_host* host, const mgt_config* config,
                        const mgt_model_context* context, void** self);
  void (*destroy)(void* self);
  /* Writes the program. Must declare the same parameters, in the same order, in every program.
   * UNIMPLEMENTED for a program that the model does not have. */
  mgt_status* (*build)(void* self, const mgt_program_request* request, const mgt_builder* builder);
} mgt_model;

#ifdef __cplusplus
}
#endif
#endif
