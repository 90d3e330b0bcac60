/* Plugin kind `parallel`: which logical axis lies on which mesh axis. C11 and C++20.
 * A parallel plugin adds one mesh axis (or several) and rules to the layout; the partitioner
 * derives every collective from them. */
#ifndef MEGATRON_ABI_PARALLEL_H
#define MEGATRON_ABI_PARALLEL_H

#include "base.h"
#include "host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t mgt_index_map_kind;
#define MGT_MAP_CONTIGUOUS 1u /* ceil(n / ranks) each, the last ones shorter */
#define MGT_MAP_BALANCED 2u   /* 2 * ranks chunks; rank r holds chunks r and 2 * ranks - 1 - r */

/* Which operand stays where it is when two operands of an op claim one mesh axis. */
typedef uint32_t mgt_stationary;
#define MGT_STATIONARY_WEIGHTS 1u
#define MGT_STATIONARY_ACTIVATIONS 2u

/* The mapping applies only where no other mapping of the op claims the mesh axis. */
#define MGT_MAPPING_SECONDARY (1u << 0)

typedef struct mgt_layout {
  uint32_t struct_size;
  uint32_t flags;
  void* context; /* first argument of every function below */
  mgt_status* (*mesh_axis)(void* context, mgt_str name, uint32_t size, mgt_stationary stationary);
  mgt_status* (*map_axis)(void* context, mgt_str logical, mgt_str mesh, mgt_index_map_kind map,
                          uint32_t flags);
  /* Optimizer state, gradients and weights that are alike on all ranks of a mesh axis are cut into
   * flat shards over it: stage 1, 2 or 3 (ZeRO; Rajbhandari et al. 2020, arXiv:1910.02054). */
  mgt_status* (*shard_states)(void* context, mgt_str mesh, uint32_t stage);
  /* Attention whose key/value sequence lies on `mesh` passes blocks around a ring
   * (Liu et al. 2023, arXiv:2310.01889) in place of gathering them. */
  mgt_status* (*ring_attention)(void* context, mgt_str mesh);
  /* Blocks are dealt to the stages of `mesh` in order. */
  mgt_status* (*pipeline)(void* context, mgt_str mesh, mgt_str schedule);
} mgt_layout;

typedef struct mgt_parallel {
  uint32_t struct_size;
  uint32_t flags;
  /* [main-thread] all */
  mgt_status* (*create)(const mgt_host* host, const mgt_config* config, void** self);
  void (*destroy)(void* self);
  mgt_status* (*apply)(void* self, const mgt_layout* layout);
} mgt_parallel;

#ifdef __cplusplus
}
#endif
#endif
