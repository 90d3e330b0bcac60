#include "pieces.hpp"

BAD_ENTRY { return nullptr; }
