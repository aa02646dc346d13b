#include "core/call_site.h"

#include <exception>

namespace leakguard {
namespace {

std::string keyOf(const Line& line) {
  std::string key = line.file;
  key += '\0';
  key += line.function;
  for (const int number : {line.line, line.endLine, line.column, line.endColumn}) {
    key += '\0';
    key += std::to_string(number);
  }
  return key;
}

} // namespace

LineTable::LineTable(size_t capacity) : capacity_(capacity), lines_(1) {}

uint32_t LineTable::intern(const Line& line) noexcept {
  try {
    std::string key = keyOf(line);
    const std::lock_guard guard(mutex_);
    if (const auto known = byText_.find(key); known != byText_.end()) {
      return known->second;
    }
    if (lines_.size() >= capacity_) {
      ++refused_;
      return 0;
    }
    const auto id = static_cast<uint32_t>(lines_.size());
    lines_.push_back(line);
    byText_.emplace(std::move(key), id);
    return id;
  } catch (const std::exception&) { // no memory: the place stays unknown
    return 0;
  }
}

Line LineTable::at(uint32_t id) const {
  const std::lock_guard guard(mutex_);
  return id < lines_.size() ? lines_[id] : Line{};
}

size_t LineTable::size() const noexcept {
  const std::lock_guard guard(mutex_);
  return lines_.size() - 1;
}

uint64_t LineTable::refused() const noexcept {
  const std::lock_guard guard(mutex_);
  return refused_;
}

NameTable::NameTable(size_t capacity) : capacity_(capacity), names_(1) {}

uint32_t NameTable::intern(std::string_view name) noexcept {
  try {
    const std::lock_guard guard(mutex_);
    std::string key(name);
    if (const auto known = ids_.find(key); known != ids_.end()) {
      return known->second;
    }
    if (names_.size() >= capacity_) {
      return 0;
    }
    const auto id = static_cast<uint32_t>(names_.size());
    names_.push_back(key);
    ids_.emplace(std::move(key), id);
    return id;
  } catch (const std::exception&) {
    return 0;
  }
}

std::string NameTable::at(uint32_t id) const {
  const std::lock_guard guard(mutex_);
  return id < names_.size() ? names_[id] : std::string{};
}

size_t NameTable::size() const noexcept {
  const std::lock_guard guard(mutex_);
  return names_.size() - 1;
}

LineTable& lines() {
  static auto* table = new LineTable;
  return *table;
}
NameTable& moduleNames() {
  static auto* table = new NameTable;
  return *table;
}
NameTable& nodeNames() {
  static auto* table = new NameTable;
  return *table;
}

} // namespace leakguard
