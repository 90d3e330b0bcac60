/* Plugin kind `parallel`: which logical axis lies on which mesh axis. C11 and C++20.
 * A parallel plugin adds mesh axes and rules to the layout; the partitioner derives every
 * collective from them. Plugins are applied in the order of the manifest; the first one's axis is
 * the outermost of the mesh (its neighbours are the farthest apart). */
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

/* The mapping applies only where no other mapping of the op claims the mesh axis. */
#define MGT_MAPPING_SECONDARY (1u << 0)
/* Ranks run the program at its full size on samples of their own; the dimension is not cut. */
#define MGT_MAPPING_INSTANCES (1u << 1)
/* A size that does not divide is padded in memory; without this it is an error. */
#define MGT_MAPPING_PADDED (1u << 2)

/* How attention treats keys and values whose sequence is cut on a mesh axis. */
typedef uint32_t mgt_attention_method;
#define MGT_ATTENTION_ALL_GATHER 1u /* every rank gathers them */
#define MGT_ATTENTION_RING 2u       /* blocks pass around (Liu et al. 2023, arXiv:2310.01889) */
#define MGT_ATTENTION_ALL_TO_ALL \
  3u /* heads are exchanged for sequence (Jacobs et al. 2023, arXiv:2309.14509) */

#define MGT_PIPELINE_EMBEDDING_COUNTS (1u << 0) /* as one layer when layers are dealt evenly */
#define MGT_PIPELINE_LOSS_COUNTS (1u << 1)

typedef struct mgt_pipeline_desc {
  uint32_t struct_size;
  uint32_t flags;          /* MGT_PIPELINE_* */
  mgt_str schedule;        /* "gpipe", "1f1b", "interleaved" or "zero_bubble" */
  uint32_t virtual_stages; /* chunks of layers a rank; > 1 needs "interleaved" */
  uint32_t reserved;
  int64_t first_layers; /* of the first stage; 0 = dealt evenly */
  int64_t last_layers;
  mgt_str layout; /* "Ett|ttt|ttL": stages in order, E embedding, t layer, L loss; empty = none */
} mgt_pipeline_desc;

typedef struct mgt_layout {
  uint32_t struct_size;
  uint32_t flags;
  void* context; /* first argument of every function below */
  /* size 0: what the other axes leave of the world (one axis at most). */
  mgt_status* (*mesh_axis)(void* context, mgt_str name, uint32_t size);
  mgt_status* (*map_axis)(void* context, mgt_str logical, mgt_str mesh, mgt_index_map_kind map,
                          uint32_t flags);
  /* Optimizer state, gradients and weights that are alike on all ranks of a mesh axis are cut into
   * flat shards over it: stage 1, 2 or 3 (ZeRO; Rajbhandari et al. 2020, arXiv:1910.02054). */
  mgt_status* (*shard_states)(void* context, mgt_str mesh, uint32_t stage);
  mgt_status* (*attention)(void* context, mgt_str mesh, mgt_attention_method method);
  /* Blocks are dealt to the stages of `mesh` in order. */
  mgt_status* (*pipeline)(void* context, mgt_str mesh, const mgt_pipeline_desc* desc);
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
