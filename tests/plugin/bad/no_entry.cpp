#include "pieces.hpp"

BAD_NOTE();
