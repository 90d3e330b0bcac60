// Stands in for the C library's calls that change files and folders: kills this process at the n-th
// one, as SIGKILL or a power cut would, or lets some of them fail.
#pragma once

#include <string_view>

namespace megatron {

// From now on; the n-th call (from 1) does not happen, or half of it when it writes bytes, and the
// process ends with status 99.
void kill_at(int n);
// Calls seen since kill_at.
int kill_points_seen();

// As long as it lives, renaming and removing what ends in `path` fails with EBUSY.
class Refuse {
 public:
  explicit Refuse(std::string_view path);
  Refuse(const Refuse&) = delete;
  Refuse& operator=(const Refuse&) = delete;
  ~Refuse();
};

// As long as it lives, the file system knows plain renames only.
class PlainRenames {
 public:
  PlainRenames();
  PlainRenames(const PlainRenames&) = delete;
  PlainRenames& operator=(const PlainRenames&) = delete;
  ~PlainRenames();
};

}  // namespace megatron
