/* Plugin kind `optimizer`: an update rule as math on one logical tensor. C11 and C++20.
 * The host compiles the rule like a model: element-wise chains fuse, sharding is derived. */
#ifndef MEGATRON_ABI_OPTIMIZER_H
#define MEGATRON_ABI_OPTIMIZER_H

#include "graph.h"
#include "host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mgt_parameter_info {
  uint32_t struct_size;
  uint32_t flags;
  mgt_str name;
  mgt_dtype dtype;
  uint32_t rank;
  const mgt_dim* dims;
} mgt_parameter_info;

/* A state tensor that the optimizer keeps for a parameter, shaped like the parameter. */
typedef struct mgt_state_desc {
  uint32_t struct_size;
  mgt_dtype dtype;
  mgt_str name; /* "exp_avg": stored in checkpoints as "<name>.<parameter>"; static storage */
  double initial;
} mgt_state_desc;

#define MGT_MAX_OPTIMIZER_STATES 8

typedef struct mgt_update {
  uint32_t struct_size;
  uint32_t state_count;
  const mgt_parameter_info* info;
  mgt_value parameter; /* current weights */
  mgt_value gradient;  /* mean over the global batch, already clipped */
  mgt_value lr;        /* scalars of this step */
  mgt_value weight_decay;
  mgt_value step; /* 1 at the first update */
  const mgt_value* states;
  mgt_value new_parameter; /* out */
  mgt_value* new_states;   /* out, state_count entries */
} mgt_update;

typedef struct mgt_optimizer {
  uint32_t struct_size;
  uint32_t flags;
  /* [main-thread] all */
  mgt_status* (*create)(const mgt_host* host, const mgt_config* config, void** self);
  void (*destroy)(void* self);
  /* Writes up to MGT_MAX_OPTIMIZER_STATES descriptions, each of the parameter's dtype. */
  mgt_status* (*states)(void* self, const mgt_parameter_info* info, mgt_state_desc* out,
                        uint32_t* count);
  mgt_status* (*build_update)(void* self, const mgt_builder* builder, mgt_update* update);
} mgt_optimizer;

#ifdef __cplusplus
}
#endif
#endif
