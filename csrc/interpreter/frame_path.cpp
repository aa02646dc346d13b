#include "interpreter/frame_path.h"

#include <algorithm>

namespace leakguard {
namespace {

constexpr int kBeyondUserLine = 48; // frames looked at for the module, once the line is known
constexpr int kAtATime = 4; // frames fetched; most paths have three to eight

uint64_t mixedIn(uint64_t hash, PyObject* file) noexcept {
  return scatterBits(hash ^ hashOf(file));
}

} // namespace

// The files of torch and of the standard library stay loaded, so the address of such a file's name is as good as the
// name; of other files' names, whose code may have been generated and dropped, the contents are compared too.
CodeKind FramePaths::kindOf(const PyCodeObject* code, uint32_t rules) noexcept {
  const uint64_t place = scatterBits(reinterpret_cast<uintptr_t>(code));
  const Kind* known = kinds_.find(place, [code, rules](const Kind& seen) {
    return seen.code == code && seen.file == code->co_filename && seen.rules == rules &&
        (staysLoaded(seen.kind) || seen.fileHash == hashOf(code->co_filename));
  });
  if (known == nullptr) {
    known = &kinds_.remember(place, {code, code->co_filename, hashOf(code->co_filename), rules, classify(code)});
  }
  return known->kind;
}

FramePath FramePaths::walk(OwnFrames& frames, bool backward, bool toTheEnd) noexcept {
  const uint32_t rules = rulesVersion();
  FramePath path;
  bool engineCrossed = false; // frames from here on called backward(), they do not run in it
  int beyond = 0;
  for (int16_t i = 0;; ++i) {
    frames.reach(i + kAtATime);
    if (!frames.reach(i + 1)) {
      path.ended = true;
      return path;
    }
    path.length = static_cast<int16_t>(i + 1);
    switch (kindOf(frames.code(i), rules)) {
      case CodeKind::User:
        if (path.user < 0) {
          path.user = i;
          path.userInBackward = backward && !engineCrossed;
        }
        break;
      case CodeKind::Library:
      case CodeKind::Generated:
        if (path.library < 0 && path.user < 0) {
          path.library = i;
        }
        break;
      case CodeKind::ModuleCall:
        path.outermost = i;
        if (path.module < 0 && !engineCrossed) {
          path.module = i;
          path.recomputed = backward;
        }
        break;
      case CodeKind::Recompute:
        path.recomputed |= backward && !engineCrossed;
        break;
      case CodeKind::OptimizerStep:
        path.optimizer |= path.module < 0;
        break;
      case CodeKind::EngineEntry:
        engineCrossed |= backward;
        break;
      case CodeKind::Torch:
      case CodeKind::Standard:
      case CodeKind::Passing:
        if (path.innermost < 0) {
          path.innermost = i;
        }
        break;
    }
    const bool complete =
        path.user >= 0 && (path.module >= 0 || path.optimizer || engineCrossed || ++beyond > kBeyondUserLine);
    if (complete && !toTheEnd) {
      return path;
    }
  }
}

bool FramePaths::isOf(const Path& seen, OwnFrames& frames, bool backward, uint32_t rules) noexcept {
  const int length = seen.path.length;
  if (length == 0 || seen.backward != backward || seen.rules != rules || !frames.reach(length)) {
    return false;
  }
  for (int i = 0; i < length; ++i) {
    if (seen.codes[static_cast<size_t>(i)] != frames.code(i)) {
      return false;
    }
  }
  uint64_t files = 0;
  for (uint32_t left = seen.passing; left != 0; left &= left - 1) {
    files = mixedIn(files, frames.code(__builtin_ctz(left))->co_filename);
  }
  return files == seen.passingFiles && !(seen.path.ended && frames.reach(length + 1));
}

FramePath FramePaths::find(OwnFrames& frames, bool backward) noexcept {
  const uint32_t rules = rulesVersion();
  uint64_t place = backward ? 1 : 0;
  frames.reach(kAtATime);
  for (int i = 0; i < kAtATime && frames.reach(i + 1); ++i) {
    place = scatterBits(place ^ reinterpret_cast<uintptr_t>(frames.code(i)));
  }
  const auto is = [&](const Path& seen) { return isOf(seen, frames, backward, rules); };
  if (const Path* known = paths_.find(place, is); known != nullptr) {
    return known->path;
  }
  const FramePath path = walk(frames, backward, false);
  if (path.length > 0 && path.length <= kLongest) {
    Path fresh{};
    for (int i = 0; i < path.length; ++i) {
      const PyCodeObject* code = frames.code(i);
      fresh.codes[static_cast<size_t>(i)] = code;
      if (!staysLoaded(kindOf(code, rules))) {
        fresh.passing |= 1U << i;
        fresh.passingFiles = mixedIn(fresh.passingFiles, code->co_filename);
      }
    }
    fresh.rules = rules;
    fresh.path = path;
    fresh.backward = backward;
    paths_.remember(place, fresh);
  }
  return path;
}

} // namespace leakguard
