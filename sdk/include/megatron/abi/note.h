/* The stamp that a plugin carries in its ELF note section `.note.megatron`, read without loading
 * it. C11 and C++20. The descriptor is fixed-size, NUL-padded text and little-endian integers, so
 * that a reader of any age can print every field of a plugin that it refuses. */
#ifndef MEGATRON_ABI_NOTE_H
#define MEGATRON_ABI_NOTE_H

#include "base.h"
#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MGT_NOTE_SECTION ".note.megatron"
#define MGT_NOTE_OWNER "Megatron" /* 8 characters + NUL, padded to 12 */
#define MGT_NOTE_TYPE 1u

typedef uint32_t mgt_kind;
#define MGT_KIND_MODEL 1u
#define MGT_KIND_PARALLEL 2u
#define MGT_KIND_OPTIMIZER 3u
#define MGT_KIND_DATASET 4u
#define MGT_KIND_TOKENIZER 5u
#define MGT_KIND_COMM 6u
#define MGT_KIND_DEVICE 7u

typedef uint32_t mgt_tier;
#define MGT_TIER_STABLE 1u
#define MGT_TIER_EXACT 2u

#define MGT_BUILD_ASAN (1u << 0)
#define MGT_BUILD_TSAN (1u << 1)
#define MGT_BUILD_NDEBUG (1u << 2)
#define MGT_BUILD_CLANG (1u << 3)

typedef struct mgt_note_desc {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  mgt_tier tier;
  mgt_kind kind;
  uint32_t build_flags; /* MGT_BUILD_*; advisory, except that sanitizers must match the host's */
  char name[48];        /* [a-z0-9_]+, unique within its kind */
  char version[24];     /* of the plugin, free text */
  char sdk_version[24]; /* MGT_SDK_VERSION that it was built with */
  char compiler[40];    /* advisory */
} mgt_note_desc;

typedef struct mgt_note {
  uint32_t name_size;
  uint32_t desc_size;
  uint32_t type;
  char owner[12];
  mgt_note_desc desc;
} mgt_note;

#ifdef __cplusplus
}
#endif
#endif
