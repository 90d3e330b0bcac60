// The entry point is in a library beneath, as when a plugin is linked to another one.
#include "pieces.hpp"

BAD_NOTE();
extern "C" void megatron_test_anchor();
// Keeps the library among the needed ones.
__attribute__((used)) static void (*const anchor)() = &megatron_test_anchor;
