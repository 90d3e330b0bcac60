/* Result of a call across the boundary. C11 and C++20.
 *
 * NULL means success. Otherwise the object belongs to the side that made it and the receiver calls
 * release(status) exactly once. An error without a message is replaced by the host with a text that
 * names the plugin and calls it a plugin bug. */
#ifndef MEGATRON_ABI_STATUS_H
#define MEGATRON_ABI_STATUS_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t mgt_code;
#define MGT_OK 0u
#define MGT_CANCELLED 1u
#define MGT_UNKNOWN 2u
#define MGT_INVALID_ARGUMENT 3u
#define MGT_DEADLINE_EXCEEDED 4u
#define MGT_NOT_FOUND 5u
#define MGT_ALREADY_EXISTS 6u
#define MGT_PERMISSION_DENIED 7u
#define MGT_RESOURCE_EXHAUSTED 8u
#define MGT_FAILED_PRECONDITION 9u
#define MGT_ABORTED 10u
#define MGT_OUT_OF_RANGE 11u
#define MGT_UNIMPLEMENTED 12u
#define MGT_INTERNAL 13u
#define MGT_UNAVAILABLE 14u
#define MGT_DATA_LOSS 15u

typedef struct mgt_status {
  uint32_t struct_size;
  mgt_code code;
  mgt_str message;
  void (*release)(struct mgt_status* self);
} mgt_status;

#ifdef __cplusplus
}
#endif
#endif
