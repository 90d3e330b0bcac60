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
  mgt_str program; /* "loss": ends in loss terms; "logits": outputs "logits" [batch, seq, vocab] */
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
