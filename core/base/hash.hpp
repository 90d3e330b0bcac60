// XXH3-128 checksums as 32 hexadecimal digits, as `xxhsum -H2` prints them. Not cryptographic: they
// find damage, not tampering.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "megatron/status.hpp"

namespace megatron {

std::string hash_hex(std::span<const std::byte> bytes);
std::string hash_hex(std::string_view bytes);
Result<std::string> hash_file(const std::string& path);

// The same over bytes that come in pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // of what was given so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace megatron
