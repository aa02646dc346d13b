#include "program/program_line.h"

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "core/block_table.h"
#include "core/thread_slot.h"

namespace leakguard {
namespace {

// Libraries whose frames are nobody's line.
constexpr std::array kNobodys = {
    "libtorch",
    "libc10",
    "libleakguard",
    "libstdc++",
    "libgcc_s",
    "libc.so",
    "libm.so",
    "libpthread",
    "libgomp",
    "libiomp5",
    "libmkl",
    "libopenblas",
    "ld-linux",
    "linux-vdso"};

struct Range { // of executable addresses
  uintptr_t begin;
  uintptr_t end;
};
using Ranges = std::vector<Range>;
std::atomic<const Ranges*> nobodys{nullptr}; // ascending; replaced, and never freed: a thread may be reading

constexpr int kDeepest = 128; // frames looked at
constexpr size_t kRemembered = 256;

// Frames of the program that are kept of a stack, innermost first: the first may be torch's own, from a header.
constexpr size_t kFrames = 4;
using Frames = std::array<uintptr_t, kFrames>; // addresses; 0 = none

struct KnownStack {
  Frames frames;
  uint32_t line;
};
struct ProgramThread {
  std::array<uint32_t, 64> scopes; // lines; deeper ones count for the last
  uint32_t depth;
  std::array<KnownStack, kRemembered> known;
  ProgramThread* nextFree;
  void recycle() noexcept {
    depth = 0;
  }
};

bool isNobodys(uintptr_t address) noexcept {
  const Ranges* ranges = nobodys.load(std::memory_order_acquire);
  if (ranges == nullptr) {
    return true;
  }
  const auto after = std::upper_bound(
      ranges->begin(), ranges->end(), address, [](uintptr_t at, const Range& range) { return at < range.begin; });
  return after != ranges->begin() && address < std::prev(after)->end;
}

struct Search {
  Frames found{};
  size_t count = 0;
  int depth = 0;
};

_Unwind_Reason_Code look(_Unwind_Context* context, void* search) noexcept {
  auto& wanted = *static_cast<Search*>(search);
  const uintptr_t address = _Unwind_GetIP(context) - 1; // within the call, not after it
  if (!isNobodys(address)) {
    wanted.found[wanted.count++] = address;
  }
  return wanted.count < kFrames && ++wanted.depth < kDeepest ? _URC_NO_REASON : _URC_END_OF_STACK;
}

constexpr const char* kOffset = "+0x"; // begins the function of a line that is addresses yet

// The object that the frames lie in as its file, their offsets as its function: symbols are looked up by who reads.
uint32_t lineOf(const Frames& frames) noexcept {
  try {
    Line line;
    const void* base = nullptr;
    for (const uintptr_t address : frames) {
      Dl_info object{};
      if (address == 0 || dladdr(reinterpret_cast<void*>(address), &object) == 0 || object.dli_fname == nullptr ||
          (base != nullptr && base != object.dli_fbase)) {
        break;
      }
      base = object.dli_fbase;
      line.file = object.dli_fname;
      std::array<char, 32> offset{};
      std::snprintf(
          offset.data(),
          offset.size(),
          "%s%zx",
          kOffset,
          static_cast<size_t>(address - reinterpret_cast<uintptr_t>(base)));
      line.function += offset.data();
    }
    return base != nullptr ? lines().intern(line) : 0;
  } catch (const std::exception&) {
    return 0;
  }
}

uint32_t callerLine(ProgramThread& thread) noexcept {
  Search search;
  _Unwind_Backtrace(&look, &search);
  if (search.found[0] == 0) {
    return 0;
  }
  uint64_t place = 0;
  for (const uintptr_t address : search.found) {
    place = scatterBits(place ^ address);
  }
  KnownStack& known = thread.known[place >> 56];
  if (known.frames != search.found) {
    known = {search.found, lineOf(search.found)};
  }
  return known.line;
}

uint32_t lineOf(std::string_view name, const std::source_location& where) noexcept {
  try {
    const int number = static_cast<int>(where.line());
    return lines().intern(
        {.file = where.file_name(), .function = std::string(name), .line = number, .endLine = number});
  } catch (const std::exception&) {
    return 0;
  }
}

std::string quoted(const std::string& text) {
  std::string safe = "'";
  for (const char letter : text) {
    safe += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return safe + "'";
}

bool isHeader(const std::string& file) { // of torch or of the standard library, compiled into the program
  return file.find("/torch/include/") != std::string::npos || file.find("/include/c++/") != std::string::npos;
}

std::vector<std::string> outputOf(const std::string& command) {
  std::vector<std::string> printed;
  const auto close = [](std::FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(popen(command.c_str(), "re"), close);
  if (pipe == nullptr) {
    return printed;
  }
  std::string line;
  for (int letter = std::fgetc(pipe.get()); letter != EOF; letter = std::fgetc(pipe.get())) {
    if (letter == '\n') {
      printed.push_back(std::move(line));
      line.clear();
    } else {
      line += static_cast<char>(letter);
    }
  }
  return printed;
}

} // namespace

void learnLibraries() {
  auto ranges = std::make_unique<Ranges>();
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t /*size*/, void* out) {
        const std::string path = object->dlpi_name;
        const std::string name = path.substr(path.find_last_of('/') + 1);
        const bool skipped =
            std::any_of(kNobodys.begin(), kNobodys.end(), [&](const char* nobody) { return name.starts_with(nobody); });
        for (int i = 0; skipped && i < object->dlpi_phnum; ++i) {
          const auto& header = object->dlpi_phdr[i];
          if (header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0) {
            const uintptr_t begin = object->dlpi_addr + header.p_vaddr;
            static_cast<Ranges*>(out)->push_back({begin, begin + header.p_memsz});
          }
        }
        return 0;
      },
      ranges.get());
  std::sort(ranges->begin(), ranges->end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  nobodys.store(ranges.release(), std::memory_order_release);
}

void readProgramLine(Context& context) noexcept {
  ProgramThread* thread = ThreadSlot<ProgramThread>::get();
  if (thread == nullptr) {
    return;
  }
  const uint32_t depth = thread->depth;
  if (depth > 0) {
    context.line = thread->scopes[std::min<size_t>(depth, thread->scopes.size()) - 1];
  } else if (context.phase != Phase::Backward) { // there the line that made the node is known
    context.line = callerLine(*thread);
  }
}

void enterScope(std::string_view name, const std::source_location& where) noexcept {
  ProgramThread* thread = ThreadSlot<ProgramThread>::get();
  if (thread == nullptr) {
    return;
  }
  if (thread->depth < thread->scopes.size()) {
    thread->scopes[thread->depth] = lineOf(name, where);
  }
  ++thread->depth;
}

void leaveScope() noexcept {
  if (ProgramThread* thread = ThreadSlot<ProgramThread>::get(); thread != nullptr && thread->depth > 0) {
    --thread->depth;
  }
}

Line readable(const Line& line) {
  if (!line.function.starts_with(kOffset)) {
    return line;
  }
  std::string command = "addr2line -C -f -i -e " + quoted(line.file);
  for (const char letter : line.function) {
    command += letter == '+' ? ' ' : letter;
  }
  // Pairs of lines: a function, then its file and line; inlined functions before those they stand in.
  const std::vector<std::string> printed = outputOf(command + " 2>/dev/null");
  Line found = line;
  for (size_t i = 0; i + 1 < printed.size(); i += 2) {
    const std::string& place = printed[i + 1];
    const size_t colon = place.rfind(':');
    const int number = colon != std::string::npos ? std::atoi(place.c_str() + colon + 1) : 0;
    if (number <= 0) {
      continue;
    }
    const bool header = isHeader(place.substr(0, colon));
    if (found.line == 0 || !header) {
      found = {.file = place.substr(0, colon), .function = printed[i], .line = number, .endLine = number};
    }
    if (!header) {
      break;
    }
  }
  return found;
}

} // namespace leakguard
