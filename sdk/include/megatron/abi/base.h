/* Plain types that every other ABI header uses. C11 and C++20.
 *
 * Conventions of the boundary:
 *  - a struct passed by pointer starts with `struct_size`, set by whoever fills it (MGT_INIT);
 *    the reader asks MGT_HAS before it touches a field younger than the struct's first version;
 *  - strings are UTF-8, pointer + length, not terminated, borrowed until the call returns unless
 *    a comment says otherwise;
 *  - whoever creates an object destroys it, through the table that created it;
 *  - enums are numbered uint32_t constants, never reused; an unknown value is an UNIMPLEMENTED
 * status. */
#ifndef MEGATRON_ABI_BASE_H
#define MEGATRON_ABI_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MGT_MAX_RANK 8

/* Zero-fills *p and stamps its size. */
#define MGT_INIT(p) (memset((p), 0, sizeof *(p)), (p)->struct_size = (uint32_t)sizeof *(p))
/* True when the struct at `p`, as its filler compiled it, has `field`. */
#define MGT_HAS(p, field) \
  ((size_t)(p)->struct_size >= offsetof(MGT_STRUCT_OF(p), field) + sizeof((p)->field))
#ifdef __cplusplus
#define MGT_STRUCT_OF(p) std::remove_cv_t<std::remove_pointer_t<decltype(p)>>
#else
#define MGT_STRUCT_OF(p) __typeof__(*(p))
#endif

typedef struct mgt_str {
  const char* data;
  uint64_t size;
} mgt_str;

typedef uint32_t mgt_dtype;
#define MGT_DTYPE_F32 1u
#define MGT_DTYPE_F16 2u
#define MGT_DTYPE_BF16 3u
#define MGT_DTYPE_F64 4u
#define MGT_DTYPE_I8 5u
#define MGT_DTYPE_U8 6u
#define MGT_DTYPE_I16 7u
#define MGT_DTYPE_U16 8u
#define MGT_DTYPE_I32 9u
#define MGT_DTYPE_I64 10u
#define MGT_DTYPE_BOOL 11u
#define MGT_DTYPE_F8_E4M3 12u
#define MGT_DTYPE_F8_E5M2 13u

/* One dimension of a logical tensor: its true size and the name of its axis ("batch", "hidden", …).
 * Parallel plugins map axis names to mesh axes; an empty name is an axis that never gets sharded.
 */
typedef struct mgt_dim {
  mgt_str axis;
  int64_t size;
} mgt_dim;

typedef uint32_t mgt_attr_type;
#define MGT_ATTR_INT 1u
#define MGT_ATTR_FLOAT 2u
#define MGT_ATTR_STRING 3u
#define MGT_ATTR_INTS 4u

/* A named attribute of an op. Only the member that `type` names is meaningful. */
typedef struct mgt_attr {
  mgt_str name;
  mgt_attr_type type;
  uint32_t reserved;
  int64_t i;
  double f;
  mgt_str s;
  const int64_t* ints;
  uint64_t int_count;
} mgt_attr;

#ifdef __cplusplus
}
#endif
#endif
