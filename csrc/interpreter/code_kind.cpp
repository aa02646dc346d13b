#include "interpreter/code_kind.h"

#include <algorithm>
#include <atomic>
#include <bit>
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

uint64_t hashOfBytes(PyObject* bytes) noexcept {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // the field stays as long as bytes objects keep their hash
  const Py_hash_t kept = reinterpret_cast<PyBytesObject*>(bytes)->ob_shash;
#pragma GCC diagnostic pop
  return static_cast<uint64_t>(kept != -1 ? kept : PyBytes_Type.tp_hash(bytes));
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
  if ((endsWith(name, "<locals>.recompute_fn") || name == "CheckpointFunction.backward") &&
      endsWith(file, "utils/checkpoint.py")) {
    return CodeKind::Recompute;
  }
  return CodeKind::Torch;
}

} // namespace

// Note [Hashes that strings keep]
// A str and a bytes object remember the hash of their contents once they were asked for it. A new object at the address
// of a dead one has none, so the remembered hash tells the two apart for the price of one read. Whoever asks first
// computes it: a pure function of the contents that stores one aligned word, the same whichever thread is first, with
// the GIL or without it.
uint64_t hashOf(PyObject* text) noexcept {
  const Py_hash_t kept = reinterpret_cast<PyASCIIObject*>(text)->hash;
  return static_cast<uint64_t>(kept != -1 ? kept : PyUnicode_Type.tp_hash(text));
}

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
  const uint64_t names = scatterBits(hashOf(code->co_filename)) + std::rotl(hashOf(code->co_qualname), 23);
  const uint64_t lines = hashOfBytes(code->co_linetable) + (static_cast<uint64_t>(code->co_firstlineno) << 40);
  return mixBits(names ^ scatterBits(lines));
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
      return CodeKind::Passing;
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
    if (staysLoaded(kind) && copyOf(code->co_qualname) == "<module>") {
      return CodeKind::Passing;
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
