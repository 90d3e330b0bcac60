#include "plugin/compatibility.hpp"

#include <vector>

#include "megatron/plugin.hpp"  // MGT_BUILD_SANITIZER
#include "plugin/kind.hpp"

namespace megatron::plugin {
namespace {

constexpr uint32_t kSanitizers = MGT_BUILD_ASAN | MGT_BUILD_TSAN;

struct Mismatch {
  std::string fact;
  std::string cause;
  std::string action;
};

std::string sanitizer_name(uint32_t flags) {
  if (flags & MGT_BUILD_ASAN) return "with AddressSanitizer";
  if (flags & MGT_BUILD_TSAN) return "with ThreadSanitizer";
  return "without a sanitizer";
}

// "ABI 0.1", or "ABI 1.0 to 1.7" where older minors load too.
std::string provided_abi(const HostFacts& host) {
  const std::string last = abi_text(host.abi_major, host.abi_minor);
  if (host.abi_major == 0 || host.abi_minor == 0) return text("ABI ", last);
  return text("ABI ", abi_text(host.abi_major, 0), " to ", last);
}

void check_abi(const mgt_note_desc& note, const HostFacts& host, std::vector<Mismatch>& out) {
  const bool minor_fits =
      host.abi_major == 0 ? note.abi_minor == host.abi_minor : note.abi_minor <= host.abi_minor;
  if (note.abi_major == host.abi_major && minor_fits) return;
  const std::string built = abi_text(note.abi_major, note.abi_minor);
  out.push_back(
      {"plugin ABI mismatch",
       text("built for ABI ", built, " (sdk ", note.sdk_version, ", ", tier_name(note.tier),
            " tier); this host provides ", provided_abi(host), " (sdk ", host.sdk_version, ")"),
       text("rebuild the plugin against sdk ", host.sdk_version,
            ", or run a host that provides ABI ", built)});
}

void check_tier(const mgt_note_desc& note, const HostFacts& host, std::vector<Mismatch>& out) {
  if (note.tier == MGT_TIER_EXACT && note.sdk_version != host.sdk_version) {
    out.push_back({"plugin sdk mismatch",
                   text("built with sdk ", note.sdk_version,
                        " in the exact tier, which needs the host's own sdk; this host has sdk ",
                        host.sdk_version),
                   text("rebuild the plugin against sdk ", host.sdk_version)});
  } else if (note.tier != MGT_TIER_STABLE && note.tier != MGT_TIER_EXACT) {
    out.push_back({"unknown plugin tier",
                   text("its note says tier ", note.tier, " (sdk ", note.sdk_version,
                        "); this host (sdk ", host.sdk_version, ") knows 1 (stable) and 2 (exact)"),
                   text("run a host of sdk ", note.sdk_version)});
  }
}

void check_identity(const mgt_note_desc& note, const HostFacts& host, std::vector<Mismatch>& out) {
  if (!is_known_kind(note.kind)) {
    out.push_back({"unknown plugin kind",
                   text("its note says kind ", note.kind, " (sdk ", note.sdk_version,
                        "); this host (sdk ", host.sdk_version, ") knows 1 (", kind_names().front(),
                        ") to ", kind_names().size(), " (", kind_names().back(), ")"),
                   text("run a host of sdk ", note.sdk_version)});
  }
  if (!is_plugin_name(note.name)) {
    out.push_back({"invalid plugin name",
                   text("its note says name '", note.name, "'; a name matches [a-z][a-z0-9_]*"),
                   "rebuild it with megatron_add_plugin(KIND NAME …)"});
  }
}

void check_sanitizer(const mgt_note_desc& note, const HostFacts& host, std::vector<Mismatch>& out) {
  if ((note.build_flags & kSanitizers) == host.sanitizer) return;
  out.push_back({"sanitizer mismatch",
                 text("built ", sanitizer_name(note.build_flags), "; this host is built ",
                      sanitizer_name(host.sanitizer)),
                 text("rebuild the plugin ", sanitizer_name(host.sanitizer))});
}

}  // namespace

std::string abi_text(uint32_t major, uint32_t minor) { return text(major, ".", minor); }

HostFacts this_host() {
  HostFacts host;
  host.sanitizer = MGT_BUILD_SANITIZER;
  return host;
}

Status check_compatibility(const mgt_note_desc& note, const HostFacts& host) {
  std::vector<Mismatch> mismatches;
  check_abi(note, host, mismatches);
  check_tier(note, host, mismatches);
  check_identity(note, host, mismatches);
  check_sanitizer(note, host, mismatches);
  if (mismatches.empty()) return {};

  std::string fact, cause;
  for (const Mismatch& m : mismatches) {
    fact += text(fact.empty() ? "" : ", ", m.fact);
    cause += text(cause.empty() ? "" : "; ", m.cause);
  }
  return Status::error(Code::failed_precondition, fact, cause, mismatches.front().action);
}

}  // namespace megatron::plugin
