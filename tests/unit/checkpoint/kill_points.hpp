// Kills this process at its n-th change of a file or folder, by standing in for the C library's
// calls: what SIGKILL or a power cut after that call would leave.
#pragma once

namespace megatron {

// From now on; the n-th call (from 1) does not happen, or half of it when it writes bytes, and the
// process ends with status 99.
void kill_at(int n);
// Calls seen since kill_at.
int kill_points_seen();

}  // namespace megatron
