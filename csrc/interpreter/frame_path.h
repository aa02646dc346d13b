#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "interpreter/code_kind.h"
#include "interpreter/cpython_layout.h"

namespace leakguard {

// This thread's frames, innermost first, fetched as far as somebody looks. No GIL.
class OwnFrames {
 public:
  static constexpr int kDeepest = 256;

  // Whether there are as many.
  bool reach(int count) noexcept {
    if (count > reached_ && !ended_) {
      const int wanted = (count < kDeepest ? count : kDeepest) - reached_;
      const int got = lg_own_frames(&cursor_, &frames_[static_cast<size_t>(reached_)], wanted);
      reached_ += got;
      ended_ = got < wanted || reached_ == kDeepest;
    }
    return count <= reached_;
  }
  const LgFrameRef& operator[](int index) const noexcept { // of those that were reached
    return frames_[static_cast<size_t>(index)];
  }
  const PyCodeObject* code(int index) const noexcept {
    return static_cast<const PyCodeObject*>((*this)[index].code);
  }

 private:
  std::array<LgFrameRef, kDeepest> frames_; // NOLINT: written before it is read
  int reached_ = 0;
  bool ended_ = false;
  void* cursor_ = nullptr;
};

// Which frames of a stack say where an allocation comes from, as indices; -1 = none. Follows from the kinds of the code
// objects on the stack alone, so that it can be remembered for a row of code objects.
struct FramePath {
  int16_t length = 0; // frames looked at
  int16_t user = -1; // innermost frame of the user's own code
  int16_t library = -1; // innermost frame outside torch and the standard library, when it is not the user's
  int16_t innermost = -1; // innermost frame of all
  int16_t module = -1; // innermost call of a module
  int16_t outermost = -1; // outermost call of a module, when the whole stack was looked at
  bool ended = false; // there are no more frames than `length`
  bool optimizer = false; // an optimizer's step runs, outside modules
  bool userInBackward = false; // the user's frame was called by the autograd engine
  bool recomputed = false; // so was a forward
};

// Two entries a place: what shares a place by accident must not be found out anew in turns, which is a hundred times
// as slow as to remember it. Valid when zeroed.
template <class Entry, int kPlaceBits>
class Remembered {
 public:
  // The entry that `is` true of; nullptr when there is none.
  template <class Is>
  Entry* find(uint64_t scattered, Is is) noexcept {
    auto& [newer, older] = places_[scattered >> (64 - kPlaceBits)];
    return is(newer) ? &newer : is(older) ? &older : nullptr;
  }
  // In place of the older entry there.
  Entry& remember(uint64_t scattered, const Entry& entry) noexcept {
    auto& [newer, older] = places_[scattered >> (64 - kPlaceBits)];
    older = newer;
    return newer = entry;
  }

 private:
  std::array<std::array<Entry, 2>, size_t{1} << kPlaceBits> places_;
};

// What one thread remembers of the stacks it has seen. Valid when zeroed.
class FramePaths {
 public:
  // `backward`: the thread runs an autograd node.
  FramePath find(OwnFrames& frames, bool backward) noexcept;
  // Without memory, and to the end of the stack.
  FramePath walkAll(OwnFrames& frames, bool backward) noexcept {
    return walk(frames, backward, true);
  }

 private:
  struct alignas(32) Kind {
    const PyCodeObject* code;
    const PyObject* file;
    uint64_t fileHash;
    uint32_t rules;
    CodeKind kind;
  };
  static constexpr int kLongest = 27; // longer paths are walked each time
  struct alignas(64) Path {
    std::array<const PyCodeObject*, kLongest> codes;
    uint64_t passingFiles; // of the names of the files whose code may go, see passing
    uint32_t passing; // bit i: so it is for codes[i]
    uint32_t rules;
    FramePath path; // length 0: empty
    bool backward;
  };
  static_assert(sizeof(Path) == 256);

  CodeKind kindOf(const PyCodeObject* code, uint32_t rules) noexcept;
  FramePath walk(OwnFrames& frames, bool backward, bool toTheEnd) noexcept;
  static bool isOf(const Path& seen, OwnFrames& frames, bool backward, uint32_t rules) noexcept;

  Remembered<Kind, 9> kinds_;
  Remembered<Path, 6> paths_;
};

} // namespace leakguard
