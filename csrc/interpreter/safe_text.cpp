#include <algorithm>
#include <cstring>
#include <string_view>

#include "interpreter/reference_name.h"

namespace leakguard {

namespace {

void appendUtf8(std::string& out, Py_UCS4 c) {
  if (c >= 0xD800 && c <= 0xDFFF) {
    c = 0xFFFD;
  }
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isSeparator(char c) {
  return c == '_' || c == '.' || c == '-';
}
bool isWordCharacter(char c) {
  return isDigit(c) || isSeparator(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
      static_cast<unsigned char>(c) >= 0x80;
}

// A long run of letters and digits without a break is a token, a hash or an id, not a name somebody chose.
bool looksGenerated(const std::string& text) {
  constexpr std::size_t kLongWithDigits = 16, kLong = 32;
  std::size_t length = 0, digits = 0;
  for (char c : text) {
    if (isSeparator(c)) {
      length = digits = 0;
      continue;
    }
    length++;
    digits += isDigit(c);
    if (length >= kLong || (length >= kLongWithDigits && digits >= 2)) {
      return true;
    }
  }
  return false;
}

} // namespace

std::string textOf(PyObject* text, std::size_t limit) {
  if (text == nullptr || !PyUnicode_Check(text)) {
    return "?";
  }
#if PY_VERSION_HEX < 0x030c0000
  if (!PyUnicode_IS_READY(text)) {
    return "?";
  }
#endif
  // PyUnicode_AsUTF8 would leave its result inside the object
  const auto length = static_cast<std::size_t>(PyUnicode_GET_LENGTH(text));
  const int kind = PyUnicode_KIND(text);
  const void* data = PyUnicode_DATA(text);
  std::string out;
  for (std::size_t i = 0; i < std::min(length, limit); i++) {
    appendUtf8(out, PyUnicode_READ(kind, data, static_cast<Py_ssize_t>(i)));
  }
  if (length > limit) {
    out += "...";
  }
  return out;
}

std::string nameOfKey(PyObject* key) {
  constexpr std::size_t kLongestName = 80;
  if (key == nullptr || !PyUnicode_CheckExact(key)) {
    return {};
  }
  std::string text = textOf(key, kLongestName + 1);
  if (text.empty() || text.size() > kLongestName || isDigit(text[0])) {
    return {};
  }
  if (!std::all_of(text.begin(), text.end(), isWordCharacter) || looksGenerated(text)) {
    return {};
  }
  return text;
}

std::string shortTypeName(PyTypeObject* type) {
  const char* dot = std::strrchr(type->tp_name, '.');
  return dot ? dot + 1 : type->tp_name;
}

PyObject* lookUp(PyObject* dict, const char* key) {
  // PyDict_GetItemString would compare with whatever keys share the hash, a user's own type included
  if (dict == nullptr || !PyDict_Check(dict)) {
    return nullptr;
  }
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &name, &value)) {
    if (PyUnicode_CheckExact(name) && PyUnicode_CompareWithASCIIString(name, key) == 0) {
      return value;
    }
  }
  return nullptr;
}

std::string qualifiedName(PyObject* code) {
  return textOf(reinterpret_cast<PyCodeObject*>(code)->co_qualname);
}

std::string functionTitle(PyObject* code) {
  const std::string name = qualifiedName(code);
  constexpr std::string_view kLocals = "<locals>.";
  const auto at = name.rfind(kLocals);
  return at == std::string::npos ? name : name.substr(at + kLocals.size());
}

std::string fileOf(PyObject* code) {
  return textOf(reinterpret_cast<PyCodeObject*>(code)->co_filename, 4096);
}

} // namespace leakguard
