// _scripted: the core's ledger, step history and growth, played event by event from a test. No torch, and no ledger but
// the one each Run owns.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "core/block_table.h"
#include "core/growth.h"
#include "core/ledger.h"
#include "core/step_history.h"

namespace py = pybind11;
using namespace leakguard;

namespace {

DeviceKey deviceOf(const std::string& name) {
  for (int index = 0; index < kDevices; ++index) {
    if (nameOf(static_cast<DeviceKey>(index)) == name) {
      return static_cast<DeviceKey>(index);
    }
  }
  throw py::value_error("no such device: " + name);
}

py::list rowsOf(std::span<const BirthWindow> windows) {
  py::list rows;
  for (const BirthWindow& window : windows) {
    rows.append(py::make_tuple(window.first, window.last, window.birthSteps, window.blocks, window.bytes));
  }
  return rows;
}

class Run {
 public:
  Run() {
    watchAgain();
  }
  void watchAgain() {
    growth_.reset();
    history_ = std::make_unique<StepHistory>(*ledger_);
    growth_ = std::make_unique<Growth>(ledger_->groups(), *history_);
  }

  void born(const std::string& device, uint64_t address, uint64_t bytes, uint32_t line, uint8_t phase) {
    Context context;
    context.line = line;
    context.phase = static_cast<Phase>(phase);
    ledger_->born(deviceOf(device), address, bytes, context);
  }
  void freeRequested(const std::string& device, uint64_t address) {
    ledger_->freeRequested(deviceOf(device), address);
  }
  bool retired(const std::string& device, uint64_t address) {
    return ledger_->retired(deviceOf(device), address);
  }
  uint32_t mark() {
    return history_->mark(0.0);
  }
  uint32_t observe() {
    return growth_->observe();
  }
  void rebase() {
    history_->rebase();
  }
  uint32_t steps() const {
    return history_->steps();
  }
  uint32_t base() const {
    return history_->base();
  }

  py::tuple counts(const std::string& device) const {
    const DeviceCounts counts = ledger_->counts(deviceOf(device));
    return py::make_tuple(
        counts.liveBlocks,
        counts.liveBytes,
        counts.pendingBlocks,
        counts.pendingBytes,
        counts.bornBlocks,
        counts.bornBytes);
  }
  py::tuple takeRange(const std::string& device) {
    const Ledger::Range range = ledger_->takeRange(deviceOf(device));
    return py::make_tuple(range.trough, range.peak);
  }
  py::tuple lost() const {
    const LostCounts lost = ledger_->lost();
    return py::make_tuple(lost.droppedBirths, lost.unknownBirths, lost.replacedBlocks);
  }
  // {(device, address): (bytes, step, group, pending, birth)}
  py::dict blocks() const {
    py::dict blocks;
    for (const Block& block : ledger_->snapshot().blocks) {
      blocks[py::make_tuple(nameOf(block.device), block.address)] =
          py::make_tuple(block.requested, block.step, block.group, block.state == BlockState::PendingFree, block.birth);
    }
    return blocks;
  }
  // [(device, line, phase)] by group
  py::list groups() const {
    py::list keys;
    for (uint32_t group = 0; group < ledger_->groups().size(); ++group) {
      const GroupKey key = ledger_->groups().key(group);
      keys.append(py::make_tuple(nameOf(key.device), key.line, static_cast<int>(key.phase)));
    }
    return keys;
  }
  py::list groupCounts() const {
    std::vector<LiveCount> counts;
    ledger_->groups().copyCounts(counts);
    py::list rows;
    for (const LiveCount& count : counts) {
      rows.append(py::make_tuple(count.blocks, count.bytes));
    }
    return rows;
  }
  py::list windows(uint32_t group) const {
    const std::vector<BirthWindow> windows = ledger_->groups().windows(group);
    return rowsOf(windows);
  }
  std::optional<uint32_t> nearest(uint32_t step) const {
    return history_->nearest(step);
  }
  // {group: (blocks more, bytes more, blocks now, bytes now)}
  py::object diff(uint32_t from, uint32_t to) const {
    const auto changes = history_->diff(from, to);
    if (!changes) {
      return py::none();
    }
    py::dict rows;
    for (const GroupChange& change : *changes) {
      rows[py::int_(change.group)] =
          py::make_tuple(change.change.blocks, change.change.bytes, change.now.blocks, change.now.bytes);
    }
    return rows;
  }
  // [(first step, step, {device: (allocated, trough, peak, consumed)})]
  py::list rows() const {
    py::list rows;
    for (const Mark& mark : history_->rows()) {
      py::dict devices;
      for (const DeviceStep& row : mark.devices) {
        devices[py::str(nameOf(row.device))] = py::make_tuple(row.allocated, row.trough, row.peak, row.consumed);
      }
      rows.append(py::make_tuple(mark.firstStep, mark.step, devices));
    }
    return rows;
  }
  // {group: (first step, last step, steps of birth, blocks, bytes, blocks a step, bytes a step, seen at)}
  py::dict evidence() const {
    py::dict found;
    for (const Evidence& evidence : growth_->evidence()) {
      found[py::int_(evidence.group)] = py::make_tuple(
          evidence.firstStep,
          evidence.lastStep,
          evidence.birthSteps,
          evidence.live.blocks,
          evidence.live.bytes,
          evidence.blocksPerStep,
          evidence.bytesPerStep,
          evidence.seenAt);
    }
    return found;
  }
  size_t hostBytes() const {
    return ledger_->hostBytes();
  }

 private:
  std::unique_ptr<Ledger> ledger_ = std::make_unique<Ledger>();
  std::unique_ptr<StepHistory> history_;
  std::unique_ptr<Growth> growth_;
};

// A table that removes what it finds, with the block's bytes as its only content.
class Table {
 public:
  bool insert(uint64_t address, uint64_t bytes) {
    const auto [block, fresh] = table_.insert(address);
    block.requested = bytes;
    block.state = BlockState::Live;
    return fresh;
  }
  std::optional<uint64_t> erase(uint64_t address) {
    Block out{};
    return table_.erase(address, out) ? std::optional(out.requested) : std::nullopt;
  }
  py::dict contents() const {
    py::dict contents;
    table_.forEach([&](const Block& block) { contents[py::int_(block.address)] = block.requested; });
    return contents;
  }

 private:
  BlockTable table_;
};

} // namespace

PYBIND11_MODULE(_scripted, m) {
  m.doc() = "The core, played event by event. For the tests alone.";
  m.attr("WARMUP") = Growth::kWarmup;
  m.attr("TAIL") = Growth::kTail;
  m.attr("FIRM") = Growth::kFirm;
  m.attr("MOST_WINDOWS") = BirthWindows::kMost;
  py::class_<Run>(m, "Run")
      .def(py::init<>())
      .def("watch_again", &Run::watchAgain)
      .def("born", &Run::born)
      .def("free_requested", &Run::freeRequested)
      .def("retired", &Run::retired)
      .def("mark", &Run::mark)
      .def("observe", &Run::observe)
      .def("rebase", &Run::rebase)
      .def_property_readonly("steps", &Run::steps)
      .def_property_readonly("base", &Run::base)
      .def("counts", &Run::counts)
      .def("take_range", &Run::takeRange)
      .def("lost", &Run::lost)
      .def("blocks", &Run::blocks)
      .def("groups", &Run::groups)
      .def("group_counts", &Run::groupCounts)
      .def("windows", &Run::windows)
      .def("nearest", &Run::nearest)
      .def("diff", &Run::diff)
      .def("rows", &Run::rows)
      .def("evidence", &Run::evidence)
      .def("host_bytes", &Run::hostBytes);
  py::class_<BirthWindows>(m, "BirthWindows")
      .def(py::init<>())
      .def("add", &BirthWindows::add)
      .def("remove", &BirthWindows::remove)
      .def("rows", [](const BirthWindows& self) { return rowsOf(self.windows()); });
  py::class_<Table>(m, "BlockTable")
      .def(py::init<>())
      .def("insert", &Table::insert)
      .def("erase", &Table::erase)
      .def("contents", &Table::contents);
}
