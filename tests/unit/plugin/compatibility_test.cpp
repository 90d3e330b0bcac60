// Which notes this host accepts, and what it says about the others.
#include "plugin/compatibility.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace megatron::plugin {
namespace {

mgt_note_desc good_note() {
  mgt_note_desc note{};
  note.struct_size = sizeof note;
  note.abi_major = 1;
  note.abi_minor = 4;
  note.tier = MGT_TIER_STABLE;
  note.kind = MGT_KIND_MODEL;
  std::strcpy(note.name, "gpt");
  std::strcpy(note.sdk_version, "1.4.0");
  return note;
}
HostFacts host(uint32_t major = 1, uint32_t minor = 4) {
  return {.abi_major = major, .abi_minor = minor, .sdk_version = text(major, ".", minor, ".0")};
}

struct Abi {
  uint32_t plugin_major, plugin_minor, host_major, host_minor;
  bool fits;
};
// Below 1.0 every minor may break; from then on older minors load into newer hosts.
constexpr Abi kAbis[] = {{0, 1, 0, 1, true},  {0, 1, 0, 2, false}, {0, 2, 0, 1, false},
                         {1, 4, 1, 4, true},  {1, 0, 1, 4, true},  {1, 5, 1, 4, false},
                         {2, 0, 1, 4, false}, {0, 4, 1, 4, false}};

TEST(Compatibility, Abi) {
  for (const Abi& row : kAbis) {
    mgt_note_desc note = good_note();
    note.abi_major = row.plugin_major;
    note.abi_minor = row.plugin_minor;
    EXPECT_EQ(check_compatibility(note, host(row.host_major, row.host_minor)).ok(), row.fits)
        << abi_text(row.plugin_major, row.plugin_minor) << " in "
        << abi_text(row.host_major, row.host_minor);
  }
}

struct Mismatch {
  const char* name;
  void (*change)(mgt_note_desc& note);
  const char* message;
};
const Mismatch kMismatches[] = {
    {"Nothing", [](mgt_note_desc&) {}, ""},
    {"NewerAbi", [](mgt_note_desc& n) { n.abi_minor = 5; },
     "plugin ABI mismatch\n  built for ABI 1.5 (sdk 1.4.0, stable tier); this host provides ABI "
     "1.0 to 1.4 (sdk 1.4.0)\n  fix: rebuild the plugin against sdk 1.4.0, or run a host that "
     "provides ABI 1.5"},
    {"ExactTierOfAnotherSdk",
     [](mgt_note_desc& n) {
       n.tier = MGT_TIER_EXACT;
       n.sdk_version[4] = '1';
     },
     "plugin sdk mismatch\n  built with sdk 1.4.1 in the exact tier, which needs the host's own "
     "sdk; this host has sdk 1.4.0\n  fix: rebuild the plugin against sdk 1.4.0"},
    {"ExactTierOfThisSdk", [](mgt_note_desc& n) { n.tier = MGT_TIER_EXACT; }, ""},
    {"UnknownTier", [](mgt_note_desc& n) { n.tier = 3; },
     "unknown plugin tier\n  its note says tier 3 (sdk 1.4.0); this host (sdk 1.4.0) knows 1 "
     "(stable) and 2 (exact)\n  fix: run a host of sdk 1.4.0"},
    {"UnknownKind", [](mgt_note_desc& n) { n.kind = 8; },
     "unknown plugin kind\n  its note says kind 8 (sdk 1.4.0); this host (sdk 1.4.0) knows 1 "
     "(model) to 7 (device)\n  fix: run a host of sdk 1.4.0"},
    {"Name", [](mgt_note_desc& n) { n.name[0] = 'G'; },
     "invalid plugin name\n  its note says name 'Gpt'; a name matches [a-z][a-z0-9_]*\n  fix: "
     "rebuild it with megatron_add_plugin(KIND NAME …)"},
    {"Sanitizer", [](mgt_note_desc& n) { n.build_flags = MGT_BUILD_ASAN; },
     "sanitizer mismatch\n  built with AddressSanitizer; this host is built without a sanitizer\n"
     "  fix: rebuild the plugin without a sanitizer"},
    {"OtherBuildFlagsAreAdvice",
     [](mgt_note_desc& n) { n.build_flags = MGT_BUILD_NDEBUG | MGT_BUILD_CLANG; }, ""},
    {"TwoAtOnce",
     [](mgt_note_desc& n) {
       n.abi_major = 2;
       n.kind = 8;
     },
     "plugin ABI mismatch, unknown plugin kind\n  built for ABI 2.4 (sdk 1.4.0, stable tier); this "
     "host provides ABI 1.0 to 1.4 (sdk 1.4.0); its note says kind 8 (sdk 1.4.0); this host (sdk "
     "1.4.0) knows 1 (model) to 7 (device)\n  fix: rebuild the plugin against sdk 1.4.0, or run a "
     "host that provides ABI 2.4"},
};

TEST(Compatibility, Messages) {
  for (const Mismatch& row : kMismatches) {
    mgt_note_desc note = good_note();
    row.change(note);
    EXPECT_EQ(check_compatibility(note, host()).message(), row.message) << row.name;
  }
}

}  // namespace
}  // namespace megatron::plugin
