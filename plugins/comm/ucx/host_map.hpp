// Which ranks of a group share a host.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace megatron::ucx {

struct HostMap {
  // Positions in the group, ascending; hosts in the order of their first rank.
  std::vector<std::vector<uint32_t>> hosts;
  uint32_t own_host = 0, own_index = 0;
  std::vector<uint32_t> host_of, index_of;  // by position
  bool regular = true;                      // every host has as many ranks
  bool aligned = true;  // … a power of two of them, neighbours: a balanced tree splits at hosts

  // `identities`: of each rank of the group.
  static HostMap make(const std::vector<std::string>& identities, uint32_t self) {
    HostMap map;
    std::vector<std::string> known;
    for (uint32_t p = 0; p < identities.size(); ++p) {
      uint32_t h = 0;
      while (h < known.size() && known[h] != identities[p]) ++h;
      if (h == known.size()) {
        known.push_back(identities[p]);
        map.hosts.emplace_back();
      }
      map.host_of.push_back(h);
      map.index_of.push_back(static_cast<uint32_t>(map.hosts[h].size()));
      map.hosts[h].push_back(p);
    }
    map.own_host = map.host_of[self];
    map.own_index = map.index_of[self];
    const auto size = static_cast<uint32_t>(map.hosts[0].size());
    map.aligned = std::has_single_bit(size);
    for (uint32_t h = 0; h < map.hosts.size(); ++h) {
      map.regular = map.regular && map.hosts[h].size() == size;
      for (uint32_t i = 0; i < map.hosts[h].size(); ++i)
        map.aligned = map.aligned && map.hosts[h][i] == h * size + i;
    }
    map.aligned = map.aligned && map.regular;
    return map;
  }
  const std::vector<uint32_t>& own() const { return hosts[own_host]; }
};

}  // namespace megatron::ucx
