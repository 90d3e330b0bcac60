// Which plugins this host accepts, from the note alone. The rule is in megatron/abi/version.h; the
// answer names each field that disagrees, with both sides.
#pragma once

#include <cstdint>
#include <string>

#include "megatron/abi/note.h"
#include "megatron/status.hpp"

namespace megatron::plugin {

// What the rules compare with; tests put other hosts in.
struct HostFacts {
  uint32_t abi_major = MGT_ABI_MAJOR;
  uint32_t abi_minor = MGT_ABI_MINOR;
  std::string sdk_version = MGT_SDK_VERSION;
  uint32_t sanitizer = 0;  // MGT_BUILD_ASAN, MGT_BUILD_TSAN or 0
};
HostFacts this_host();

// OK, or the three lines of a refusal without the path: "plugin ABI mismatch", both versions, fix.
// Several disagreements are joined in the order of their weight.
Status check_compatibility(const mgt_note_desc& note, const HostFacts& host);

// "0.1"
std::string abi_text(uint32_t major, uint32_t minor);

}  // namespace megatron::plugin
