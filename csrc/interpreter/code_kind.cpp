#include "interpreter/code_kind.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>

namespace leakguard {
namespace {

std::mutex rulesMutex; // leaf
std::vector<CodeRule>& rules() {
  static auto* rules = new std::vector<CodeRule>;
  return *rules;
}
std::atomic<uint32_t> version{1};

void appendUtf8(std::string& out, Py_UCS4 ch) {
  if (ch < 0x80) {
    out += static_cast<char>(ch);
  } else if (ch < 0x800) {
    out += static_cast<char>(0xC0 | ch >> 6);
    out += static_cast<char>(0x80 | (ch & 0x3F));
  } else if (ch < 0x10000) {
    out += static_cast<char>(0xE0 | ch >> 12);
    out += static_cast<char>(0x80 | (ch >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (ch & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | ch >> 18);
    out += static_cast<char>(0x80 | (ch >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (ch >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (ch & 0x3F));
  }
}

// Not PyUnicode_AsUTF8: that one caches inside the string.
std::string copyOf(PyObject* text) {
  std::string out;
  if (text == nullptr || !PyUnicode_Check(text)) {
    return out;
  }
  const Py_ssize_t length = PyUnicode_GET_LENGTH(text);
  const auto kind = PyUnicode_KIND(text);
  const void* data = PyUnicode_DATA(text);
  out.reserve(static_cast<size_t>(length));
  for (Py_ssize_t i = 0; i < length; ++i) {
    appendUtf8(out, PyUnicode_READ(kind, data, i));
  }
  return out;
}

uint64_t wordAt(const char* from) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

uint64_t shortWordAt(const char* from, size_t size) noexcept {
  uint64_t word = 0;
  for (size_t i = 0; i < size; ++i) {
    word = word << 8 | static_cast<unsigned char>(from[i]);
  }
  return word;
}

// All of the bytes when they are not many, else an even sample; in four lanes, so that the multiplications overlap.
uint64_t hashOf(const char* data, size_t size) noexcept {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15ULL;
  constexpr size_t kChunk = 32;
  constexpr size_t kMostChunks = 64;
  uint64_t a = size;
  uint64_t b = 1;
  uint64_t c = 2;
  uint64_t d = 3;
  const auto fold = [](uint64_t lane, uint64_t word) { return std::rotl((lane ^ word) * kMultiplier, 29); };
  const size_t chunks = size / kChunk;
  const size_t stride = chunks <= kMostChunks ? 1 : chunks / kMostChunks + 1;
  for (size_t chunk = 0; chunk < chunks; chunk += stride) {
    const char* from = data + chunk * kChunk;
    a = fold(a, wordAt(from));
    b = fold(b, wordAt(from + 8));
    c = fold(c, wordAt(from + 16));
    d = fold(d, wordAt(from + 24));
  }
  const char* rest = data + chunks * kChunk;
  const size_t left = size % kChunk;
  if (left >= 8) {
    b = fold(b, wordAt(rest));
  }
  if (left >= 16) {
    c = fold(c, wordAt(rest + 8));
  }
  if (left >= 24) {
    d = fold(d, wordAt(rest + 16));
  }
  if (left % 8 != 0) { // the last bytes, with some that were taken before
    a = fold(a, size >= 8 ? wordAt(data + size - 8) : shortWordAt(data, size));
  }
  return mixBits(a ^ std::rotl(b, 16) ^ std::rotl(c, 32) ^ std::rotl(d, 48));
}

size_t sizeOf(PyObject* text) noexcept { // in bytes
  return static_cast<size_t>(PyUnicode_GET_LENGTH(text)) * static_cast<size_t>(PyUnicode_KIND(text));
}

// Of the contents. The hash that a string remembers is no help: nearly all names in code objects have never been asked
// for theirs.
uint64_t hashOf(PyObject* text) noexcept {
  return hashOf(static_cast<const char*>(PyUnicode_DATA(text)), sizeOf(text));
}

bool endsWith(std::string_view text, std::string_view end) noexcept {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

CodeKind kindOfTorch(const PyCodeObject* code, std::string_view file) {
  const std::string name = copyOf(code->co_qualname);
  if (name == "Module._wrapped_call_impl" && endsWith(file, "nn/modules/module.py")) {
    // Slot 0 must hold `self` itself: where a closure captures it, it holds a cell.
    const auto* kinds = reinterpret_cast<PyBytesObject*>(code->co_localspluskinds);
    constexpr unsigned char kCell = 0x40;
    return code->co_nlocalsplus > 0 && (static_cast<unsigned char>(kinds->ob_sval[0]) & kCell) == 0
        ? CodeKind::ModuleCall
        : CodeKind::Torch;
  }
  if (name == "_engine_run_backward" && endsWith(file, "autograd/graph.py")) {
    return CodeKind::EngineEntry;
  }
  if (name == "Optimizer.profile_hook_step.<locals>.wrapper" && endsWith(file, "optim/optimizer.py")) {
    return CodeKind::OptimizerStep;
  }
  return CodeKind::Torch;
}

} // namespace

void setCodeRules(std::vector<CodeRule> fresh) {
  std::stable_sort(fresh.begin(), fresh.end(), [](const CodeRule& a, const CodeRule& b) {
    return a.prefix.size() > b.prefix.size(); // the longest prefix wins
  });
  const std::lock_guard guard(rulesMutex);
  rules() = std::move(fresh);
  version.fetch_add(1, std::memory_order_relaxed);
}

uint32_t rulesVersion() noexcept {
  return version.load(std::memory_order_relaxed);
}

uint64_t kindFingerprintOf(const PyCodeObject* code) noexcept {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15ULL;
  PyObject* file = code->co_filename;
  const size_t size = sizeOf(file);
  const auto* data = static_cast<const char*>(PyUnicode_DATA(file));
  uint64_t mixed = size << 32 ^ static_cast<uint32_t>(code->co_firstlineno);
  mixed = (mixed ^ reinterpret_cast<uintptr_t>(file)) * kMultiplier;
  mixed ^= std::rotl(reinterpret_cast<uintptr_t>(code->co_qualname) * kMultiplier, 32);
  if (size >= 16) {
    mixed = (mixed ^ wordAt(data) ^ std::rotl(wordAt(data + size - 16), 21)) * kMultiplier;
    return mixed ^ std::rotl(wordAt(data + size - 8) * kMultiplier, 43);
  }
  return mixed ^ hashOf(data, size);
}

uint64_t fingerprintOf(const PyCodeObject* code) noexcept {
  const auto* table = reinterpret_cast<const PyBytesObject*>(code->co_linetable);
  uint64_t mixed = hashOf(code->co_filename) * 31 + hashOf(code->co_qualname);
  mixed = mixed * 31 + static_cast<uint64_t>(code->co_firstlineno);
  mixed = mixed * 31 + static_cast<uint64_t>(Py_SIZE(code));
  return mixBits(mixed * 31 + hashOf(table->ob_sval, static_cast<size_t>(Py_SIZE(table))));
}

CodeKind classify(const PyCodeObject* code) noexcept {
  try {
    const std::string file = copyOf(code->co_filename);
    if (file.starts_with("<frozen")) {
      return CodeKind::Standard;
    }
    if (file.starts_with("<ipython-input") || file.starts_with("<stdin>")) {
      return CodeKind::User;
    }
    if (file.starts_with("<") || file.empty()) {
      return CodeKind::Generated;
    }
    if (file.find("/torchinductor_") != std::string::npos) { // code that torch.compile wrote
      return CodeKind::Torch;
    }
    CodeKind kind = CodeKind::User;
    {
      const std::lock_guard guard(rulesMutex);
      for (const CodeRule& rule : rules()) {
        if (file.starts_with(rule.prefix)) {
          kind = rule.kind;
          break;
        }
      }
    }
    return kind == CodeKind::Torch ? kindOfTorch(code, file) : kind;
  } catch (const std::exception&) { // no memory
    return CodeKind::Standard;
  }
}

Line locate(PyCodeObject* code, int lastiBytes) {
  Line line;
  line.file = copyOf(code->co_filename);
  line.function = copyOf(code->co_qualname);
  if (lastiBytes < 0 ||
      PyCode_Addr2Location(code, lastiBytes, &line.line, &line.column, &line.endLine, &line.endColumn) == 0) {
    line.line = line.endLine = code->co_firstlineno;
    line.column = line.endColumn = -1;
  }
  return line;
}

} // namespace leakguard
