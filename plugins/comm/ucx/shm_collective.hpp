// One collective among ranks of one host. Three ways, chosen alike by all ranks from what all of
// them announced:
//  - inline: a small buffer travels with the announcement; one exchange, everybody computes all;
//  - direct: buffers lie in allocated memory; everybody reads the others' and writes the results in
//    place, each rank its share;
//  - staged: through the shared stages of the group, in rounds, two rounds under way at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_run.hpp"
#include "common/operation.hpp"
#include "common/reduce.hpp"
#include "team.hpp"

namespace megatron::ucx {

class ShmCollective final : public CollectiveRun {
 public:
  // `operation` outlives this object.
  ShmCollective(Team& team, const comm::Operation& operation, uint64_t sequence);

  // Announces it; false: not yet, the others are too far behind.
  bool post() override;
  Result<bool> step() override;
  bool finished() const override { return finished_; }
  // Ranks of the world that have, and have not, announced it.
  void arrivals(std::vector<uint32_t>& arrived, std::vector<uint32_t>& missing) const;
  bool needs(uint32_t rank) const override;

 private:
  enum class Path { inline_, direct, staged };

  std::byte* send_of(uint32_t member) const { return p_.sends[member]; }
  uint64_t block(uint32_t member) const;  // bytes: where an own block begins in send or recv
  uint64_t inline_bytes() const;          // of the payload, if it travels inline
  bool fits_inline() const { return inline_bytes() <= kInlineBytes; }
  bool always_inline() const;
  void write_entry(Entry& entry) const;
  Result<bool> match();
  void warm_next_entry();
  Status mismatch(uint32_t member) const;
  Status choose_path();
  void finish();

  void run_inline();
  bool step_direct();
  bool direct_piece();  // false: nothing left of this rank's share
  bool step_staged();
  void stage_round(uint64_t round);
  void reduce_round(uint64_t round);
  void consume_round(uint64_t round);

  // Elements [begin, end) of a vector of `count` that member `i` reduces.
  struct Range {
    uint64_t begin, end;
  };
  Range share(uint64_t count, uint32_t i) const;
  comm::Reduction reduction() const;
  void copy(std::byte* to, const std::byte* from, uint64_t bytes) const {
    if (to != from) comm::copy_bytes(to, from, bytes);
  }

  Team& team_;
  const comm::Operation& o_;
  const uint64_t sequence_;
  uint64_t arrival_ = 0;  // the word that announces it
  const uint32_t n_, self_;
  bool posted_ = false, finished_ = false, started_ = false, warmed_ = false;
  uint32_t matched_ = 0;  // members whose announcements agree
  Path path_ = Path::inline_;

  Team::Pointers& p_;  // sends, recvs: of all members, as mapped here; not of staged collectives
  std::vector<uint64_t> send_displacement_, recv_displacement_;  // all_to_all_v, elements
  std::vector<uint64_t> remote_displacement_;  // all_to_all_v: of the block for this rank
  uint64_t done_ = 0;                          // direct: bytes or elements of the current part
  uint32_t part_ = 0;                          // direct: member whose block is being copied
  bool share_done_ = false;
  // Staged: number of rounds, elements of a round, and the counts when it began.
  uint64_t rounds_ = 0, per_round_ = 0;
  uint64_t base_direct_ = 0, base_staged_ = 0, base_reduced_ = 0, base_consumed_ = 0;
  uint64_t staged_ = 0, reduced_ = 0, consumed_ = 0;
};

}  // namespace megatron::ucx
