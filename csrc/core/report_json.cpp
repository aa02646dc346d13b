#include "core/report_json.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

namespace leakguard {
namespace {

using Json = nlohmann::ordered_json;

template <class... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, arguments...);
  return text.data();
}

std::string threeDigits(double number) {
  return format("%.*f", number < 9.995 ? 2 : number < 99.95 ? 1 : 0, number);
}

std::string plural(uint32_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string baseName(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string where(const ReportPlace& place) {
  if (place.line == 0) {
    return place.function.empty() ? "a line that could not be told" : place.function;
  }
  const std::string at = baseName(place.file) + ":" + std::to_string(place.line);
  return place.expression.empty() ? at : place.expression + " (" + at + ")";
}

std::string pieces(double blocksPerStep) {
  if (blocksPerStep >= 1.5) {
    return format("%.0f blocks a step", blocksPerStep);
  }
  return blocksPerStep >= 0.9 ? "a block a step"
                              : format("a block every %.0f steps", 1 / std::max(blocksPerStep, 1e-9));
}

std::string titleOf(const ReportFinding& finding, uint32_t steps) {
  const uint32_t span = finding.lastStep - finding.firstStep + 1;
  const std::string since = "since step " + std::to_string(finding.firstStep);
  const std::string pace = finding.birthSteps >= span
      ? "steadily " + since + " (" + std::to_string(span) + " of " + plural(steps, "step") + ")"
      : format("about every %.0f steps ", double(span) / std::max(finding.birthSteps, 1U)) + since + " (" +
          std::to_string(finding.birthSteps) + " times)";
  return finding.device + " grows " + formatBytes(finding.bytesPerStep) + " a step, " + pace;
}

std::string whyOf(const ReportFinding& finding) {
  return where(finding.place) + " makes " + pieces(finding.blocksPerStep) + " that nothing lets go of";
}

struct Sentences {
  std::string what;
  std::string why;
  std::string next;
};

Sentences sentencesOf(const ProgramReport& report) {
  const std::string status = statusOf(report);
  if (status == "inconclusive") {
    const uint32_t needed = kWarmupSteps + kJudgedSteps;
    return {
        "INCONCLUSIVE  too few steps",
        plural(report.steps, "step") + " seen, and growth is told from warm-up and caching after " +
            std::to_string(needed),
        report.steps == 0 ? "call step() of the Watch at the end of each iteration"
                          : "run at least " + plural(needed, "step")};
  }
  if (status == "leak") {
    const ReportFinding& first = report.findings.front();
    std::string why = whyOf(first);
    if (report.findings.size() > 1) {
      const double total = std::accumulate(
          report.findings.begin(), report.findings.end(), 0.0, [](double sum, const ReportFinding& finding) {
            return sum + finding.bytesPerStep;
          });
      why += "; " + plural(static_cast<uint32_t>(report.findings.size()), "call site") + " in all, " +
          formatBytes(total) + " a step";
    }
    return {
        "LEAK  " + titleOf(first, report.steps),
        why,
        "look at what keeps the result of that line: a container that grows, a total, a graph (detach() before "
        "keeping)"};
  }
  std::string devices;
  for (const ReportDevice& one : report.devices) {
    devices += (devices.empty() ? "" : ", ") + one.device;
  }
  return {
      "CLEAN  nothing grows",
      "no call site kept more memory from step to step: " + plural(report.steps, "step") + " on " +
          (devices.empty() ? "nothing" : devices),
      "nothing to do"};
}

Json orNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// FNV-1a: the same for the same function and text of the line on any machine.
std::string fingerprintOf(const ReportPlace& place) {
  uint32_t hash = 2166136261U;
  for (const char letter : place.function + '\0' + place.expression) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  }
  return format("%08x", hash);
}

Json jsonOf(const ReportFinding& finding, uint32_t steps) {
  const ReportPlace& place = finding.place;
  return {
      {"fingerprint", fingerprintOf(place)},
      {"verdict", "growing"},
      {"cause", "unknown"},
      {"title", titleOf(finding, steps)},
      {"why", whyOf(finding)},
      {"fix", nullptr},
      {"device", finding.device},
      {"bytes", finding.bytes},
      {"blocks", finding.blocks},
      {"bytes_per_step", finding.bytesPerStep},
      {"blocks_per_step", finding.blocksPerStep},
      {"first_step", finding.firstStep},
      {"last_step", finding.lastStep},
      {"category", "unknown"},
      {"allocated_at",
       {{"file", orNull(place.file)},
        {"line", place.line != 0 ? Json(place.line) : Json(nullptr)},
        {"function", orNull(place.function)},
        {"expression", orNull(place.expression)},
        {"op", orNull(place.op)},
        {"module", nullptr},
        {"phase", place.phase},
        {"via", nullptr}}},
      {"root", ""},
      {"retained_by", Json::array()},
      {"retained_bytes", 0},
      {"example", nullptr}};
}

} // namespace

std::string formatBytes(double size) {
  const char* const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}; // NOLINT(modernize-avoid-c-arrays)
  for (const char* const& name : names) {
    const bool bytes = &name == &names[0];
    const std::string number = bytes && size == std::round(size) ? format("%.0f", size) : threeDigits(size);
    if (std::stod(number) < 1024 || &name == &names[5]) {
      return number + " " + name;
    }
    size /= 1024;
  }
  return "";
}

const char* statusOf(const ProgramReport& report) noexcept {
  if (report.steps < kWarmupSteps + kJudgedSteps) {
    return "inconclusive";
  }
  return report.findings.empty() ? "clean" : "leak";
}

std::string verdictLines(const ProgramReport& report) {
  const Sentences told = sentencesOf(report);
  return told.what + "\nwhy   " + told.why + "\nnext  " + told.next + "\n";
}

std::string reportJson(const ProgramReport& report) {
  const Sentences told = sentencesOf(report);
  Json findings = Json::array();
  for (const ReportFinding& finding : report.findings) {
    findings.push_back(jsonOf(finding, report.steps));
  }
  Json devices = Json::array();
  for (const ReportDevice& device : report.devices) {
    devices.push_back(
        {{"device", device.device},
         {"allocated_bytes", device.allocated},
         {"reserved_bytes", nullptr},
         {"peak_bytes", device.peak},
         {"bytes_per_step", nullptr},
         {"fragmentation", nullptr},
         {"outside_allocator_bytes", nullptr}});
  }
  const double fraction = report.watchedSeconds > 0 ? report.overheadSeconds / report.watchedSeconds : 0;
  const Json whole = {
      {"schema", 1},
      {"leakguard", report.leakguard},
      {"torch", report.torch},
      {"python", ""},
      {"status", statusOf(report)},
      {"why", told.why},
      {"next", told.next},
      {"steps",
       {{"count", report.steps},
        {"warmup", kWarmupSteps},
        {"source", report.steps != 0 ? Json("explicit") : Json(nullptr)}}},
      {"devices", devices},
      {"findings", findings},
      {"advice", Json::array()},
      {"overhead", {{"seconds", report.overheadSeconds}, {"fraction", fraction}, {"host_bytes", report.hostBytes}}},
      {"lost",
       {{"events", report.lostEvents},
        {"unknown_births", report.unknownBirths},
        {"uncovered_devices", 0},
        {"failures", 0}}}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace leakguard
