#pragma once

// leakguard for a LibTorch program: which line of it keeps more tensor memory from step to step.
//
//     leakguard::Watch watch;
//     for (...) {
//       ...                       // one training step
//       watch.step();
//     }
//     std::cout << watch.verdict();
//     watch.save("report.json");  // `leakguard show report.json` draws it, anywhere
//
// Watched are the blocks of the CPU allocator. Nothing here includes a torch header. Link it with the CMake package
// `leakguard` (see examples/cpp_training), after torch.

#include <memory>
#include <source_location>
#include <string>
#include <string_view>

#ifndef LEAKGUARD_API
#define LEAKGUARD_API __attribute__((visibility("default")))
#endif

namespace leakguard {

// Watches from construction to destruction. One at a time in a process. Any thread may allocate meanwhile; step() and
// the reports are for one thread at a time.
class LEAKGUARD_API Watch {
 public:
  // Throws std::runtime_error when something watches already, or when the CPU allocator cannot be followed.
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // A training step is over. Growth is told from warm-up after 12.
  void step();

  std::string status() const; // "leak", "clean" or "inconclusive"
  std::string verdict() const; // three lines: what, why, what to do next
  std::string json() const; // the report, schema 1
  // Writes json() to a file, whole or not at all. Throws std::runtime_error, with the path, when it cannot.
  void save(const std::string& path) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Names the place of what this thread allocates while it lives; the innermost one counts. Without any, the place is the
// innermost frame of the stack outside torch and the system's libraries, which needs a walk of the stack at each
// allocation (a microsecond or two) and debug information (-g) for its line.
class LEAKGUARD_API Scope {
 public:
  explicit Scope(std::string_view name, const std::source_location& where = std::source_location::current()) noexcept;
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

} // namespace leakguard
