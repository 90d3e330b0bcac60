/* Plugin kind `tokenizer`: text to ids and back. C11 and C++20. */
#ifndef MEGATRON_ABI_TOKENIZER_H
#define MEGATRON_ABI_TOKENIZER_H

#include "host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mgt_special_tokens {
  uint32_t struct_size;
  uint32_t flags;
  int64_t eod, bos, eos, pad, unk, mask, cls, sep; /* -1 = the tokenizer has none */
} mgt_special_tokens;

typedef struct mgt_tokenizer {
  uint32_t struct_size;
  uint32_t flags;
  mgt_status* (*create)(const mgt_host* host, const mgt_config* config,
                        void** self); /* [main-thread] */
  void (*destroy)(void* self);        /* [main-thread] */
  int64_t (*vocab_size)(const void* self);
  mgt_status* (*special_tokens)(const void* self, mgt_special_tokens* out);
  /* [thread-safe] *count = ids of the text; at most `capacity` are written. When *count > capacity
   * the caller calls again with more room; text.size + 16 always suffices for one call. */
  mgt_status* (*encode)(const void* self, mgt_str text, int32_t* ids, uint64_t capacity,
                        uint64_t* count);
  /* [thread-safe] bytes of the ids, same protocol; they need not be valid UTF-8 on their own. */
  mgt_status* (*decode)(const void* self, const int32_t* ids, uint64_t id_count, char* text,
                        uint64_t capacity, uint64_t* size);
} mgt_tokenizer;

/* A live tokenizer that the host lends to a dataset. */
typedef struct mgt_tokenizer_handle {
  const mgt_tokenizer* table;
  const void* self;
} mgt_tokenizer_handle;

#ifdef __cplusplus
}
#endif
#endif
