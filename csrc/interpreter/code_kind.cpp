#include "interpreter/code_kind.h"

#include <algorithm>
#include <atomic>
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

uint64_t hashOf(PyObject* text) noexcept {
  // The cached hash is of the contents; -1 until somebody asks for it, which costs one more look and nothing else.
  return text != nullptr && PyUnicode_Check(text)
      ? static_cast<uint64_t>(reinterpret_cast<PyASCIIObject*>(text)->hash) ^
          static_cast<uint64_t>(PyUnicode_GET_LENGTH(text)) << 48
      : 0;
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

uint64_t fingerprintOf(const PyCodeObject* code) noexcept {
  const auto* table = reinterpret_cast<const PyBytesObject*>(code->co_linetable);
  const auto size = static_cast<uint64_t>(Py_SIZE(table));
  uint64_t mixed = hashOf(code->co_qualname) * 31 + hashOf(code->co_filename);
  mixed = mixed * 31 + static_cast<uint64_t>(code->co_firstlineno);
  mixed = mixed * 31 + static_cast<uint64_t>(Py_SIZE(code));
  mixed = mixed * 31 + size;
  // Up to eight words of the line table: all of it for the small functions that generated code is made of.
  const uint64_t words = size / 8;
  const uint64_t stride = words > 8 ? words / 8 : 1;
  for (uint64_t word = 0; word < words; word += stride) {
    uint64_t value = 0;
    std::memcpy(&value, table->ob_sval + word * 8, sizeof value);
    mixed = mixBits(mixed ^ value);
  }
  uint64_t rest = 0; // the last bytes
  std::memcpy(&rest, table->ob_sval + words * 8, size % 8);
  return mixBits(mixed ^ rest);
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
