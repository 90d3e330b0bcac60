#include "pieces.hpp"

BAD_NOTE(n.desc.tier = MGT_TIER_EXACT; n.desc.sdk_version[0] = '7');
BAD_ENTRY { return nullptr; }
