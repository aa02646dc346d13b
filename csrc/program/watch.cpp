#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "core/call_site.h"
#include "core/capture.h"
#include "core/growth.h"
#include "core/ledger.h"
#include "core/report_json.h"
#include "core/step_history.h"
#include "program/leakguard.h"
#include "program/program_line.h"
#include "torch/cpu_allocator.h"
#include "torch/engine_context.h"

namespace leakguard {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string textOf(const std::string& file, int line) {
  std::ifstream source(file);
  std::string text;
  for (int number = 0; number < line; ++number) {
    if (!std::getline(source, text)) {
      return "";
    }
  }
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

ReportPlace placeOf(const GroupKey& key, uint32_t node) {
  const bool caused = key.phase == Phase::Backward && key.forwardLine != 0;
  const Line known = lines().at(caused ? key.forwardLine : key.line);
  const Line line = readable(known);
  const bool scope = known.line != 0; // an address has a line only once it is read
  return {
      .file = line.file,
      .line = line.line,
      .function = line.function,
      .expression = scope ? "Scope(\"" + line.function + "\")" : textOf(line.file, line.line),
      .op = nodeNames().at(node),
      .phase = nameOf(key.phase)};
}

} // namespace

struct Watch::Parts {
  StepHistory history{ledger()};
  Growth growth{ledger().groups(), history};
  double began = now();
  double spentBefore = SampledCost::seconds();

  ProgramReport report() const {
    ProgramReport report;
    report.leakguard = LEAKGUARD_VERSION;
    report.torch = LEAKGUARD_TORCH_VERSION;
    report.steps = history.steps() - history.base();
    const SiteGroups& groups = ledger().groups();
    for (const Evidence& evidence : growth.evidence()) {
      const GroupKey key = groups.key(evidence.group);
      const ReportPlace place = placeOf(key, groups.node(evidence.group));
      const std::string device = nameOf(key.device);
      const auto same = std::find_if(report.findings.begin(), report.findings.end(), [&](const ReportFinding& known) {
        return known.device == device && known.place == place;
      });
      ReportFinding& finding = same != report.findings.end()
          ? *same
          : report.findings.emplace_back(ReportFinding{.device = device, .place = place, .firstStep = ~0U});
      finding.bytes += evidence.live.bytes;
      finding.blocks += evidence.live.blocks;
      finding.bytesPerStep += evidence.bytesPerStep;
      finding.blocksPerStep += evidence.blocksPerStep;
      finding.firstStep = std::min(finding.firstStep, evidence.firstStep - history.base() + 1);
      finding.lastStep = std::max(finding.lastStep, evidence.lastStep - history.base() + 1);
      finding.birthSteps = std::max(finding.birthSteps, evidence.birthSteps);
    }
    std::stable_sort(
        report.findings.begin(), report.findings.end(), [](const ReportFinding& a, const ReportFinding& b) {
          return a.bytesPerStep > b.bytesPerStep;
        });
    for (int index = 0; index < kDevices; ++index) {
      const auto device = static_cast<DeviceKey>(index);
      if (ledger().seen(device)) {
        report.devices.push_back({nameOf(device), ledger().counts(device).liveBytes, peakOf(device)});
      }
    }
    report.watchedSeconds = now() - began;
    report.overheadSeconds = SampledCost::seconds() - spentBefore;
    report.hostBytes = ledger().hostBytes() + history.hostBytes();
    const LostCounts lost = ledger().lost();
    report.lostEvents = lost.droppedBirths + lost.replacedBlocks;
    report.unknownBirths = lost.unknownBirths;
    return report;
  }

  int64_t peakOf(DeviceKey device) const {
    int64_t peak = ledger().range(device).peak;
    for (const Mark& row : history.rows()) {
      for (const DeviceStep& step : row.devices) {
        peak = step.device == device ? std::max(peak, step.peak) : peak;
      }
    }
    return peak;
  }
};

Watch::Watch() {
  if (watching()) {
    throw std::runtime_error("leakguard watches this process already: end the other Watch first");
  }
  learnLibraries();
  beginForwardLines();
  if (const AttachResult result = attachCpuAllocator(); !result.attached) {
    throw std::runtime_error(std::string("leakguard cannot watch: ") + result.why);
  }
  plugLineSocket(&readProgramLine);
  plugNodeSocket(&readCurrentNode, &rememberForwardLine);
  parts_ = std::make_unique<Parts>();
  setWatching(true);
}

Watch::~Watch() {
  setWatching(false);
  plugLineSocket(nullptr);
  plugNodeSocket(nullptr, nullptr);
  detachCpuAllocator();
}

void Watch::step() {
  if (alive()) { // a forked child's steps are its parent's
    parts_->history.mark(now() - parts_->began);
    parts_->growth.observe();
  }
}

std::string Watch::status() const {
  return statusOf(parts_->report());
}

std::string Watch::verdict() const {
  return verdictLines(parts_->report());
}

std::string Watch::json() const {
  return reportJson(parts_->report());
}

void Watch::save(const std::string& path) const {
  const std::string fresh = path + ".new";
  std::ofstream file(fresh, std::ios::binary);
  file << json();
  file.close();
  if (!file || std::rename(fresh.c_str(), path.c_str()) != 0) {
    std::remove(fresh.c_str());
    throw std::runtime_error(
        "leakguard cannot write its report to " + path + ": does the folder exist, is there room?");
  }
}

Scope::Scope(std::string_view name, const std::source_location& where) noexcept {
  enterScope(name, where);
}

Scope::~Scope() {
  leaveScope();
}

} // namespace leakguard
