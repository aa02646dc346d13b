// _core: what Python sees of the ledger. No logic: values in, values out. python/leakguard/_core.pyi is the contract.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <unordered_set>

#include "bindings/holders_binding.h"
#include "bindings/module_search.h"
#include "core/call_site.h"
#include "core/growth.h"
#include "core/ledger.h"
#include "core/module_table.h"
#include "core/step_history.h"
#include "interpreter/running_line.h"
#include "torch/cpu_allocator.h"
#include "torch/engine_context.h"
#include "torch/operator_names.h"

namespace py = pybind11;
using namespace leakguard;

namespace {

py::str decoded(const std::string& text) { // file names may hold bytes that are no text
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

DeviceKey deviceOf(const std::string& name) {
  for (int index = 0; index < kDevices; ++index) {
    if (nameOf(static_cast<DeviceKey>(index)) == name) {
      return static_cast<DeviceKey>(index);
    }
  }
  throw py::value_error("no such device: " + name);
}

py::tuple placeOf(uint32_t id) {
  const Line line = lines().at(id);
  return py::make_tuple(
      decoded(line.file), decoded(line.function), line.line, line.endLine, line.column, line.endColumn);
}

py::tuple groupOf(uint32_t id) {
  const SiteGroups& groups = ledger().groups();
  const GroupKey key = groups.key(id);
  return py::make_tuple(
      nameOf(key.device),
      nameOf(key.phase),
      key.line,
      key.via,
      key.forwardLine,
      decoded(moduleNames().at(groups.module(id))),
      decoded(nodeNames().at(groups.node(id))),
      key.flags);
}

py::tuple tupleOf(const Block& block) {
  return py::make_tuple(
      block.address,
      block.requested,
      nameOf(block.device),
      block.step,
      block.group,
      decoded(moduleNames().at(block.module)),
      decoded(nodeNames().at(block.node)),
      block.state == BlockState::PendingFree,
      block.flags,
      block.thread,
      block.birth);
}

py::tuple tupleOf(const Evidence& evidence) {
  return py::make_tuple(
      evidence.group,
      evidence.firstStep,
      evidence.lastStep,
      evidence.birthSteps,
      evidence.live.blocks,
      evidence.live.bytes,
      evidence.blocksPerStep,
      evidence.bytesPerStep,
      evidence.seenAt);
}

py::tuple tupleOf(const Mark& mark) {
  py::list devices;
  for (const DeviceStep& row : mark.devices) {
    devices.append(py::make_tuple(nameOf(row.device), row.allocated, row.trough, row.peak, row.consumed));
  }
  return py::make_tuple(mark.firstStep, mark.step, mark.seconds, py::tuple(devices));
}

// The step history of one watch and what is growing in it.
struct Watch {
  StepHistory history{ledger()};
  Growth growth{ledger().groups(), history};

  // What there is to do now, as bits: one call for all a step's end asks, since Python is slow when its code has just
  // been driven out of the caches by a training step.
  static constexpr uint32_t kFresh = 1; // some group is newly suspected
  static constexpr uint32_t kGrowing = 2; // some group is suspected
  static constexpr uint32_t kUnknownModules = 4; // modules without a path ran

  uint32_t mark(double seconds) {
    if (!alive()) {
      return 0; // a forked child: the steps are its parent's
    }
    history.mark(seconds);
    const bool fresh = growth.observe() > 0;
    return (fresh ? kFresh : 0) | (growth.anyGrowing() ? kGrowing : 0) |
        (takeUnknownModules() > 0 ? kUnknownModules : 0);
  }
};

void bindLedger(py::module_& m) {
  m.def("set_watching", &setWatching, py::arg("on"));
  m.def("watching", &watching);
  m.def("alive", &alive);
  m.def("devices", [] {
    py::list seen;
    for (int index = 0; index < kDevices; ++index) {
      if (ledger().seen(static_cast<DeviceKey>(index))) {
        seen.append(nameOf(static_cast<DeviceKey>(index)));
      }
    }
    return seen;
  });
  m.def(
      "counts",
      [](const std::string& device) {
        const DeviceCounts counts = ledger().counts(deviceOf(device));
        return py::make_tuple(
            counts.liveBlocks,
            counts.liveBytes,
            counts.pendingBlocks,
            counts.pendingBytes,
            counts.bornBlocks,
            counts.bornBytes);
      },
      py::arg("device"));
  m.def("blocks", [] {
    const Snapshot snapshot = ledger().snapshot();
    py::list blocks(snapshot.blocks.size());
    for (size_t i = 0; i < snapshot.blocks.size(); ++i) {
      blocks[i] = tupleOf(snapshot.blocks[i]);
    }
    return blocks;
  });
  m.def(
      "blocks_at",
      [](const std::vector<uint64_t>& addresses) {
        const std::unordered_set<uint64_t> wanted(addresses.begin(), addresses.end());
        py::list blocks;
        for (const Block& block : ledger().snapshot().blocks) {
          if (wanted.contains(block.address)) {
            blocks.append(tupleOf(block));
          }
        }
        return blocks;
      },
      py::arg("addresses"));
  m.def(
      "begin_record", [](size_t most) { ledger().record().begin(most); }, py::arg("most"));
  m.def("end_record", [] {
    const EventRecord::Events events = ledger().record().end();
    py::list row(events.blocks.size());
    for (size_t i = 0; i < events.blocks.size(); ++i) {
      row[i] = py::make_tuple(events.blocks[i].state == BlockState::Live, tupleOf(events.blocks[i]));
    }
    return py::make_tuple(row, events.missed);
  });
  m.def(
      "sample_blocks",
      [](std::vector<uint32_t> groups, size_t most, const BirthMark* since) {
        std::sort(groups.begin(), groups.end());
        py::list blocks;
        for (const Block& block : ledger().sample(groups, most, since)) {
          blocks.append(py::make_tuple(block.group, block.address, block.requested));
        }
        return blocks;
      },
      py::arg("groups"),
      py::arg("most"),
      py::arg("since") = nullptr);
  py::class_<BirthMark>(m, "BirthMark")
      .def(py::init([] { return ledger().birthMark(); }))
      .def("is_now", [](const BirthMark& mark) { return ledger().birthMark() == mark; });
  m.def(
      "survivors",
      [](const std::vector<BirthMark>& marks) {
        py::list rows;
        for (const SurvivingGroup& found : ledger().survivors(marks)) {
          rows.append(py::make_tuple(found.mark, found.group, found.live.blocks, found.live.bytes));
        }
        return rows;
      },
      py::arg("marks"));
  m.def(
      "live_range",
      [](const std::string& device) {
        const Ledger::Range range = ledger().range(deviceOf(device));
        return py::make_tuple(range.trough, range.peak);
      },
      py::arg("device"));
  m.def("group", &groupOf, py::arg("group"));
  m.def("group_count", [] { return ledger().groups().size(); });
  m.def(
      "group_windows",
      [](uint32_t group) {
        py::list windows;
        for (const BirthWindow& window : ledger().groups().windows(group)) {
          windows.append(py::make_tuple(window.first, window.last, window.birthSteps, window.blocks, window.bytes));
        }
        return windows;
      },
      py::arg("group"));
  m.def("line", &placeOf, py::arg("line"));
  m.def("lost", [] {
    const LostCounts lost = ledger().lost();
    return py::make_tuple(lost.droppedBirths, lost.unknownBirths, lost.replacedBlocks, lines().refused());
  });
  m.def("host_bytes", [] { return ledger().hostBytes(); });
  m.def("allocator_seconds", &SampledCost::seconds);
}

void bindCapture(py::module_& m) {
  m.def("plug_sockets", [] {
    beginForwardLines();
    plugLineSocket(&readRunningLine);
    plugNodeSocket(&readCurrentNode, &rememberForwardLine);
  });
  m.def("unplug_sockets", [] {
    plugLineSocket(nullptr);
    plugNodeSocket(nullptr, nullptr);
  });
  m.def("name_operators", &nameOperators, py::arg("on"));
  m.def(
      "set_code_rules",
      [](const std::vector<std::pair<std::string, int>>& rules) {
        std::vector<CodeRule> converted;
        converted.reserve(rules.size());
        for (const auto& [prefix, kind] : rules) {
          converted.push_back({prefix, static_cast<CodeKind>(kind)});
        }
        setCodeRules(std::move(converted));
      },
      py::arg("rules"));
  m.attr("CODE_USER") = static_cast<int>(CodeKind::User);
  m.attr("CODE_LIBRARY") = static_cast<int>(CodeKind::Library);
  m.attr("CODE_STANDARD") = static_cast<int>(CodeKind::Standard);
  m.attr("CODE_TORCH") = static_cast<int>(CodeKind::Torch);
  m.def("attach_cpu", [] { return attachCpuAllocator().why; });
  m.def("detach_cpu", &detachCpuAllocator);
  m.def("cpu_attached", &cpuAllocatorAttached);
  m.def("cpu_allocator", &cpuAllocatorAddress);
}

void bindModules(py::module_& m) {
  m.def(
      "put_module",
      [](uint64_t address, const std::string& name) { return modules().put(address, moduleNames().intern(name)); },
      py::arg("address"),
      py::arg("name"));
  m.def(
      "drop_module", [](uint64_t address) { modules().drop(address); }, py::arg("address"));
  m.def("clear_modules", [] { modules().clear(); });
  m.def("seek_root_modules", &seekRootModulesFor, py::arg("found"));
  m.def("seen_root_modules", &seenRootModules);
  m.def("instances_of", &instancesOf, py::arg("cls"));
}

} // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "The ledger of live blocks, its steps and its growth. Internal: leakguard's own modules are the surface.";
  bindLedger(m);
  bindCapture(m);
  bindModules(m);
  bindHolders(m);
  m.attr("FRESH") = Watch::kFresh;
  m.attr("GROWING") = Watch::kGrowing;
  m.attr("UNKNOWN_MODULES") = Watch::kUnknownModules;
  py::class_<Watch>(m, "Watch")
      .def(py::init<>())
      .def("mark", &Watch::mark, py::arg("seconds"))
      .def("rebase", [](Watch& self) { self.history.rebase(); })
      .def_property_readonly("steps", [](const Watch& self) { return self.history.steps(); })
      .def_property_readonly("base", [](const Watch& self) { return self.history.base(); })
      .def("growing", [](const Watch& self) { return self.growth.growing(); })
      .def(
          "evidence",
          [](const Watch& self) {
            py::list found;
            for (const Evidence& evidence : self.growth.evidence()) {
              found.append(tupleOf(evidence));
            }
            return found;
          })
      .def(
          "rows",
          [](const Watch& self, uint32_t since) {
            py::list rows;
            for (const Mark& mark : self.history.rows(since)) {
              rows.append(tupleOf(mark));
            }
            return rows;
          },
          py::arg("since") = 0)
      .def(
          "nearest", [](const Watch& self, uint32_t step) { return self.history.nearest(step); }, py::arg("step"))
      .def(
          "diff",
          [](const Watch& self, uint32_t from, uint32_t to) -> py::object {
            const auto changes = self.history.diff(from, to);
            if (!changes) {
              return py::none();
            }
            py::list rows;
            for (const GroupChange& change : *changes) {
              rows.append(py::make_tuple(
                  change.group, change.change.blocks, change.change.bytes, change.now.blocks, change.now.bytes));
            }
            return rows;
          },
          py::arg("from_step"),
          py::arg("to_step"))
      .def("host_bytes", [](const Watch& self) { return self.history.hostBytes(); });
}
