#pragma once

// Catch2 under one name: version 3 where it is installed, else version 2. One of the test sources defines
// CATCH_CONFIG_MAIN before including this; version 3 brings its own main and ignores it.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
