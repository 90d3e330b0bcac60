/* ABI version of the plugin boundary. C11 and C++20.
 *
 * Rule: tables and structs only grow at the end; a removed slot stays and returns UNIMPLEMENTED.
 * A host accepts a STABLE plugin of the same major and of an equal or older minor. While the major
 * is 0 the minor must be equal. EXACT plugins (devices, graph-rewriting passes) must carry the
 * host's own sdk version string. */
#ifndef MEGATRON_ABI_VERSION_H
#define MEGATRON_ABI_VERSION_H

#define MGT_ABI_MAJOR 0u
#define MGT_ABI_MINOR 1u
#define MGT_SDK_VERSION "0.1.0"

#endif
