#include "pieces.hpp"

BAD_ENTRY { return nullptr; }
extern "C" __attribute__((visibility("default"))) void megatron_test_anchor() {}
