/* Writing a program: the builder that the host hands to models and optimizers. C11 and C++20.
 *
 * A program is a list of ops over named-axis tensors for one device; docs/ops.md lists the ops with
 * shapes, labels and gradients. Values are handles that are valid while their builder lives. One
 * thread at a time. */
#ifndef MEGATRON_ABI_GRAPH_H
#define MEGATRON_ABI_GRAPH_H

#include "base.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t mgt_value;

typedef uint32_t mgt_init_kind;
#define MGT_INIT_ZEROS 1u
#define MGT_INIT_ONES 2u
#define MGT_INIT_CONSTANT 3u /* a = the value */
#define MGT_INIT_NORMAL 4u   /* a = mean, b = standard deviation */
#define MGT_INIT_UNIFORM 5u  /* a = low, b = high */

#define MGT_PARAMETER_FROZEN (1u << 0) /* receives no gradient */

typedef struct mgt_parameter_desc {
  uint32_t struct_size;
  uint32_t flags;
  mgt_str name; /* dotted, stable: it is the tensor's name in checkpoints */
  mgt_dtype dtype;
  mgt_init_kind init;
  double init_a;
  double init_b;
  const mgt_dim* dims;
  uint32_t rank;
} mgt_parameter_desc;

typedef struct mgt_input_desc {
  uint32_t struct_size;
  uint32_t flags;
  mgt_str name; /* the dataset's field, or what the program's caller feeds */
  mgt_dtype dtype;
  uint32_t rank;
  const mgt_dim* dims;
} mgt_input_desc;

typedef struct mgt_value_desc {
  uint32_t struct_size;
  mgt_dtype dtype;
  uint32_t rank;
  uint32_t reserved;
  mgt_dim dims[MGT_MAX_RANK]; /* axis names live as long as the builder */
} mgt_value_desc;

typedef struct mgt_builder {
  uint32_t struct_size;
  uint32_t flags;
  void* context; /* first argument of every function below */

  mgt_status* (*parameter)(void* context, const mgt_parameter_desc* desc, mgt_value* out);
  mgt_status* (*input)(void* context, const mgt_input_desc* desc, mgt_value* out);
  /* A number that the host knows before a program starts and may change from call to call
   * ("lr", "step", "weight_decay", "position", …): rank 0, float64. Ops on scalars alone are
   * evaluated on the host in double precision. */
  mgt_status* (*scalar)(void* context, mgt_str name, mgt_value* out);
  mgt_status* (*constant)(void* context, double value, mgt_value* out); /* a scalar */
  mgt_status* (*op)(void* context, mgt_str name, const mgt_value* inputs, uint64_t input_count,
                    const mgt_attr* attrs, uint64_t attr_count, mgt_value* outputs,
                    uint64_t output_count);
  mgt_status* (*describe)(void* context, mgt_value value, mgt_value_desc* out);
  mgt_status* (*output)(void* context, mgt_str name, mgt_value value);
  /* A loss term: the sum over positions and how many positions count. The host differentiates the
   * sum, seeded with weight / (count over the whole global batch). */
  mgt_status* (*loss)(void* context, mgt_str name, mgt_value sum, mgt_value count, double weight);
  /* Scopes name the ops ("layers.3.mlp"); a block is the unit of pipeline cuts and recomputation.
   */
  mgt_status* (*push_scope)(void* context, mgt_str name);
  mgt_status* (*pop_scope)(void* context);
  mgt_status* (*begin_block)(void* context, int64_t index);
  mgt_status* (*end_block)(void* context);
} mgt_builder;

#ifdef __cplusplus
}
#endif
#endif
