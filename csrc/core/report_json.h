#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/visibility.h"

namespace leakguard {

// The report of schema 1 as a C++ program can fill it: no Python heap, so nobody is named as a holder. Sizes are bytes,
// rates are a step's; "" and 0 stand for what is not known and become null.
struct ReportPlace {
  std::string file;
  int line = 0;
  std::string function;
  std::string expression; // the text of the line
  std::string op; // in backward the autograd node
  std::string phase = "other";
  bool operator==(const ReportPlace&) const = default;
};

struct ReportFinding {
  std::string device;
  ReportPlace place;
  int64_t bytes = 0;
  int64_t blocks = 0;
  double bytesPerStep = 0;
  double blocksPerStep = 0;
  uint32_t firstStep = 0; // counted from 1
  uint32_t lastStep = 0;
  uint32_t birthSteps = 0; // distinct steps in which survivors were born
};

struct ReportDevice {
  std::string device;
  int64_t allocated = 0;
  int64_t peak = 0;
};

struct ProgramReport {
  std::string leakguard; // versions
  std::string torch;
  uint32_t steps = 0;
  std::vector<ReportFinding> findings; // most bytes a step first
  std::vector<ReportDevice> devices;
  double overheadSeconds = 0;
  double watchedSeconds = 0;
  uint64_t hostBytes = 0;
  uint64_t lostEvents = 0;
  uint64_t unknownBirths = 0;
};

inline constexpr uint32_t kWarmupSteps = 4;
inline constexpr uint32_t kJudgedSteps = 8; // after warm-up, without which nothing is said

LEAKGUARD_API const char* statusOf(const ProgramReport& report) noexcept; // "leak", "clean" or "inconclusive"
// Three lines, each ended: what, why, next.
LEAKGUARD_API std::string verdictLines(const ProgramReport& report);
// Schema 1, indented.
LEAKGUARD_API std::string reportJson(const ProgramReport& report);
// Three digits that count, in IEC units: "512 B", "1.50 MiB".
LEAKGUARD_API std::string formatBytes(double size);

} // namespace leakguard
