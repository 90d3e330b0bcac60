#include "pieces.hpp"

BAD_NOTE(n.desc.abi_major = 9; n.desc.abi_minor = 3; n.desc.sdk_version[0] = '9');
BAD_ENTRY { return nullptr; }
