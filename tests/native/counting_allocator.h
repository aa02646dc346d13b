#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <map>

// A CPU allocator that knows its live blocks, one lock around everything: slow, and simple enough to be believed.
namespace counting {

struct Known {
  size_t bytes; // as asked for
  uint64_t birth; // from 1, in the order of birth
};

// Puts the counting allocator around the one in the CPU slot. Once to a process, before anybody else wraps it.
void install();
bool installed();

// Its live blocks by address. Blocks of no bytes have no address and are not counted.
std::map<uint64_t, Known> live();
uint64_t births();
uint64_t frees();

// From now on a freed block of exactly this size is kept and handed out again to the next who asks for that size; the
// freeing thread waits inside the free, for at most the given time, until that has happened. 0 ends it.
//
// It is the worst that can happen between a free and what its caller does afterwards: whoever forgets a block only
// after it was freed forgets the next owner's.
void lingerOn(size_t bytes, int milliseconds);
bool someoneLingers();
uint64_t lingered(); // how many such blocks were handed out again while their freeing thread still waited

} // namespace counting
