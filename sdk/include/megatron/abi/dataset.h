/* Plugin kind `dataset`: sample i of a split, deterministically. C11 and C++20.
 * A dataset knows neither ranks nor batches nor prefetching. */
#ifndef MEGATRON_ABI_DATASET_H
#define MEGATRON_ABI_DATASET_H

#include "host.h"
#include "tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One tensor of a sample (without the batch dimension). */
typedef struct mgt_field {
  uint32_t struct_size;
  mgt_dtype dtype;
  mgt_str name;
  const mgt_dim* dims;
  uint32_t rank;
} mgt_field;

typedef struct mgt_dataset_request {
  uint32_t struct_size;
  uint32_t flags;
  mgt_str split;       /* "train", "valid" or "test" */
  int64_t num_samples; /* samples that the run will read; 0 = one pass over the split */
  uint64_t seed;
  mgt_str cache_dir; /* where index caches may be written; empty = beside the data */
  const mgt_tokenizer_handle* tokenizer; /* NULL when the experiment has none */
  const mgt_field* fields; /* what the model reads: the dataset must offer each by name and dims */
  uint64_t field_count;
} mgt_dataset_request;

typedef struct mgt_dataset {
  uint32_t struct_size;
  uint32_t flags;
  /* [main-thread] Fails with one clear message when the data is damaged or too small. */
  mgt_status* (*create)(const mgt_host* host, const mgt_config* config,
                        const mgt_dataset_request* request, void** self);
  void (*destroy)(void* self); /* [main-thread] */
  int64_t (*size)(const void* self);
  /* [thread-safe] Writes field f of sample `index` to buffers[f], in the order of request.fields.
   * The host refuses a sample with an id that the model's table does not have. */
  mgt_status* (*read)(const void* self, int64_t index, void* const* buffers);
} mgt_dataset;

#ifdef __cplusplus
}
#endif
#endif
