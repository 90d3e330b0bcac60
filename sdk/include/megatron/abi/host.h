/* What the host offers to every plugin, and a plugin's configuration. C11 and C++20.
 * The table outlives the plugin. Functions are thread-safe unless tagged. */
#ifndef MEGATRON_ABI_HOST_H
#define MEGATRON_ABI_HOST_H

#include "base.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t mgt_log_level;
#define MGT_LOG_TRACE 0u
#define MGT_LOG_DEBUG 1u
#define MGT_LOG_INFO 2u
#define MGT_LOG_WARNING 3u
#define MGT_LOG_ERROR 4u

typedef void (*mgt_task_fn)(void* arg, int64_t task, uint32_t worker);

typedef struct mgt_host {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_major;
  uint32_t abi_minor;
  void* context; /* first argument of every function below */

  void (*log)(void* context, mgt_log_level level, mgt_str text);

  /* The one thread budget of the process. parallel_for runs fn(arg, task, worker) for every task in
   * [0, tasks) and returns when all are done; worker < worker_count() is unique among the threads
   * that run at one time. Must not be called from inside a task. fn must not throw. */
  uint32_t (*worker_count)(void* context);
  void (*parallel_for)(void* context, int64_t tasks, mgt_task_fn fn, void* arg);

  /* Optional features by id "mgt.<name>/<revision>"; NULL when this host has none. */
  const void* (*get_extension)(void* context, mgt_str id);
} mgt_host;

/* ---- configuration ------------------------------------------------------------------------- */

typedef uint32_t mgt_option_type;
#define MGT_OPTION_BOOL 1u
#define MGT_OPTION_INT 2u
#define MGT_OPTION_FLOAT 3u
#define MGT_OPTION_STRING 4u
#define MGT_OPTION_PATH \
  5u /* string; the host makes it absolute, relative to the manifest's folder */
#define MGT_OPTION_INT_LIST 6u
#define MGT_OPTION_FLOAT_LIST 7u
#define MGT_OPTION_STRING_LIST 8u
#define MGT_OPTION_PATH_LIST 9u

#define MGT_OPTION_REQUIRED (1u << 0) /* no default: leaving it out is an error */
#define MGT_OPTION_HAS_MIN (1u << 1)
#define MGT_OPTION_HAS_MAX (1u << 2)
#define MGT_OPTION_MIN_EXCLUSIVE (1u << 3)
#define MGT_OPTION_MAX_EXCLUSIVE (1u << 4)

/* One key of a plugin's section in the manifest. Arrays of options are `struct_size` bytes apart.
 */
typedef struct mgt_option {
  uint32_t struct_size;
  uint32_t flags;
  mgt_option_type type;
  uint32_t choice_count; /* > 0: a string that must be one of `choices` */
  mgt_str key;
  mgt_str doc;           /* one sentence, with the unit */
  mgt_str default_value; /* a TOML value as text, e.g. `0.1`, `"cosine"`, `[1, 2]` */
  const mgt_str* choices;
  double min;
  double max;
} mgt_option;

typedef struct mgt_config_value {
  uint32_t struct_size;
  mgt_option_type type;
  int64_t i;           /* INT, BOOL */
  double f;            /* FLOAT */
  mgt_str s;           /* STRING, PATH */
  const int64_t* ints; /* *_LIST: `count` entries of the matching array */
  const double* floats;
  const mgt_str* strings;
  uint64_t count;
} mgt_config_value;

/* A validated section. Borrowed during the call that receives it; what `get` returns lives as long.
 */
typedef struct mgt_config {
  uint32_t struct_size;
  uint32_t flags;
  const void* context;
  /* NOT_FOUND for a key that is not in the plugin's schema (a plugin bug). */
  mgt_status* (*get)(const void* context, mgt_str key, mgt_config_value* out);
} mgt_config;

#ifdef __cplusplus
}
#endif
#endif
