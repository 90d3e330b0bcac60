/* Plugin kind `device`: memory, streams and kernels by op name. C11 and C++20. Tier EXACT.
 * A device never sees the graph: it prepares a kernel for one op at one shape and launches it. */
#ifndef MEGATRON_ABI_DEVICE_H
#define MEGATRON_ABI_DEVICE_H

#include "base.h"
#include "host.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which global indices a local dimension holds: ascending runs. Local index `local_begin + j` is
 * global index `global_begin + j` for j < size. Local indices that no piece covers are padding. */
typedef struct mgt_index_piece {
  int64_t local_begin;
  int64_t global_begin;
  int64_t size;
} mgt_index_piece;

typedef struct mgt_index_map {
  int64_t global_size;
  uint64_t piece_count; /* 0: the identity, local size == global size */
  const mgt_index_piece* pieces;
} mgt_index_map;

/* A dense row-major local tensor. */
typedef struct mgt_tensor_desc {
  uint32_t struct_size;
  mgt_dtype dtype;
  uint32_t rank;
  uint32_t flags;
  int64_t dims[MGT_MAX_RANK];
  mgt_index_map maps[MGT_MAX_RANK];
} mgt_tensor_desc;

typedef struct mgt_kernel_desc {
  uint32_t struct_size;
  uint32_t flags;
  mgt_str op;
  const mgt_attr* attrs;
  uint64_t attr_count;
  const mgt_tensor_desc* inputs; /* tensors only; scalars are passed by value at launch */
  uint64_t input_count;
  const mgt_tensor_desc* outputs;
  uint64_t output_count;
  uint64_t scalar_count;
  /* Bit o: output o is a gradient accumulator. The last scalar of the launch then says whether to
   * add to what the memory holds (non-zero) or to overwrite it (zero). */
  uint64_t accumulate_mask;
} mgt_kernel_desc;

typedef struct mgt_kernel_info {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t workspace_bytes; /* 64-byte aligned, uninitialised, this launch only */
  mgt_str implementation;   /* "vectorised", "reference", …; lives as long as the kernel */
} mgt_kernel_info;

/* Coordinates of counter-based randomness; see megatron/philox.hpp. */
typedef struct mgt_rng_key {
  uint64_t seed;
  uint64_t step;
  int64_t
      sample_offset; /* index in the global batch of the first sequence of the local batch piece */
} mgt_rng_key;

typedef struct mgt_launch {
  uint32_t struct_size;
  uint32_t flags;
  void* const* inputs;
  void* const* outputs;
  const double* scalars;
  void* workspace;
  const mgt_rng_key* rng;
} mgt_launch;

typedef struct mgt_device_info {
  uint32_t struct_size;
  uint32_t flags;
  mgt_str description;   /* "AMD EPYC, avx2, 2 threads" */
  uint64_t memory_bytes; /* 0 = unknown */
} mgt_device_info;

typedef struct mgt_device {
  uint32_t struct_size;
  uint32_t flags;
  mgt_status* (*create)(const mgt_host* host, const mgt_config* config, void** self);
  void (*destroy)(void* self);
  mgt_status* (*info)(const void* self, mgt_device_info* out);
  /* Memory. `allocate` returns memory aligned to at least 4096 bytes. */
  mgt_status* (*allocate)(void* self, uint64_t bytes, void** out);
  void (*free)(void* self, void* memory);
  mgt_status* (*upload)(void* self, void* device, const void* host, uint64_t bytes);
  mgt_status* (*download)(void* self, void* host, const void* device, uint64_t bytes);
  mgt_status* (*zero)(void* self, void* device, uint64_t bytes);
  /* UNIMPLEMENTED when no implementation accepts the op; the message lists each one's reason. */
  mgt_status* (*prepare)(void* self, const mgt_kernel_desc* desc, void** kernel,
                         mgt_kernel_info* info);
  void (*release)(void* self, void* kernel);
  /* In stream order. Allocates nothing. stream NULL = the device's own. */
  mgt_status* (*launch)(void* self, void* kernel, const mgt_launch* launch, void* stream);
  mgt_status* (*synchronize)(void* self, void* stream);
} mgt_device;

#ifdef __cplusplus
}
#endif
#endif
