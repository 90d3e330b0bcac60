#include <stdexcept>

#include "pieces.hpp"

BAD_NOTE();
BAD_ENTRY { throw std::runtime_error("no trampoline here"); }
