#include "base/hash.hpp"

#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY  // the state as a member, without an allocation that may fail
#include <xxhash.h>

#include <cerrno>
#include <vector>

#include "base/file.hpp"
#include "megatron/file.hpp"

namespace megatron {
namespace {

std::string to_hex(XXH128_hash_t hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  XXH128_canonical_t canonical;  // big-endian
  XXH128_canonicalFromHash(&canonical, hash);
  std::string out;
  for (const unsigned char byte : canonical.digest) {
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

}  // namespace

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}
std::string Hasher::hex() const { return to_hex(XXH3_128bits_digest(&state_->xxh)); }

std::string hash_hex(std::span<const std::byte> bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}
std::string hash_hex(std::string_view bytes) { return hash_hex(std::as_bytes(std::span(bytes))); }

Result<std::string> hash_file(const std::string& path) {
  MGT_ASSIGN_OR_RETURN(const FileDescriptor fd, detail::open_regular(path));
  Hasher hasher;
  std::vector<std::byte> block(size_t{1} << 20);
  while (true) {
    const ssize_t n = ::read(fd.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status("read", path, errno);
    if (n == 0) return hasher.hex();
    hasher.update(std::span(block).first(static_cast<size_t>(n)));
  }
}

}  // namespace megatron
