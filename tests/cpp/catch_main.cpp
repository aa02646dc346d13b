// The main function of the tests, compiled once: with Catch2 version 2 this file alone takes most of the build.
#define CATCH_CONFIG_MAIN
#include "catch.h"
