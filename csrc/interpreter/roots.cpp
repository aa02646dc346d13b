#include "interpreter/roots.h"

#include "interpreter/reference_name.h"

namespace leakguard {

namespace {

std::string folderOf(const std::string& file) {
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? std::string() : file.substr(0, slash + 1);
}

bool isOwnPackage(const std::string& module_name) {
  return module_name == "leakguard" || module_name.rfind("leakguard.", 0) == 0;
}

bool isLibraryModule(const LibraryFiles& files, PyObject* name, PyObject* dict) {
  if (isOwnPackage(textOf(name))) {
    return true;
  }
  PyObject* file = lookUp(dict, "__file__");
  if (file != nullptr && PyUnicode_Check(file)) {
    return files.contains(textOf(file, 4096));
  }
  // built-in and frozen modules have a spec and no file; an interactive __main__ and hand-made modules have neither
  PyObject* spec = lookUp(dict, "__spec__");
  return spec != nullptr && spec != Py_None;
}

RootKind kindOf(LgRootKind kind) {
  switch (kind) {
    case LG_ROOT_EXCEPTION_RAISED:
      return RootKind::ExceptionRaised;
    case LG_ROOT_EXCEPTION_HANDLED:
      return RootKind::ExceptionHandled;
    case LG_ROOT_THREAD_DICT:
      return RootKind::ThreadDictionary;
    case LG_ROOT_CONTEXT:
      return RootKind::ContextVariables;
    case LG_ROOT_TRACE:
      return RootKind::TraceFunction;
    case LG_ROOT_PROFILE:
      return RootKind::ProfileFunction;
    case LG_ROOT_ASYNC:
      return RootKind::AsyncState;
    case LG_ROOT_ATEXIT:
      return RootKind::AtexitCallback;
    case LG_ROOT_INTERPRETER:
      break;
  }
  return RootKind::Interpreter;
}

struct Collection {
  Roots roots;
  LibraryFiles files;
  unsigned long own_thread;
  int muted_frames;
};

void addModules(Collection& into) {
  PyObject* modules = PySys_GetObject("modules");
  if (modules == nullptr || !PyDict_Check(modules)) {
    return;
  }
  PyObject *name, *module;
  Py_ssize_t position = 0;
  while (PyDict_Next(modules, &position, &name, &module)) {
    if (!PyModule_Check(module)) {
      continue;
    }
    PyObject* dict = PyModule_GetDict(module);
    if (dict == nullptr) {
      continue;
    }
    const bool library = isLibraryModule(into.files, name, dict);
    // not counted: it is the module object that owns the dictionary
    into.roots.objects.push_back(
        {dict, RootKind::ModuleGlobals, library ? RootRank::LibraryModule : RootRank::User, false, 0, name});
  }
}

} // namespace

PyObject* moduleDict(const char* name) {
  PyObject* module = lookUp(PySys_GetObject("modules"), name);
  return module != nullptr && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
}

LibraryFiles::LibraryFiles() {
  PyObject* file = lookUp(moduleDict("os"), "__file__");
  if (file != nullptr) {
    standard_library_ = folderOf(textOf(file, 4096));
  }
  file = lookUp(moduleDict("leakguard"), "__file__"); // an editable install lies outside site-packages
  if (file != nullptr) {
    own_package_ = folderOf(textOf(file, 4096));
  }
}

bool LibraryFiles::contains(const std::string& file) const {
  if (file.rfind("<frozen ", 0) == 0) {
    return true;
  }
  if (file.find("/site-packages/") != std::string::npos || file.find("/dist-packages/") != std::string::npos) {
    return true;
  }
  if (!own_package_.empty() && file.rfind(own_package_, 0) == 0) {
    return true;
  }
  return !standard_library_.empty() && file.rfind(standard_library_, 0) == 0;
}

Roots collectRoots(int muted_frames) {
  Collection collection{{}, {}, lg_current_thread(), muted_frames};
  addModules(collection);
  const LgRootVisitor visitor{
      &collection,
      [](void* context, PyObject* object, LgRootKind kind, unsigned long thread) {
        auto& into = *static_cast<Collection*>(context);
        into.roots.objects.push_back({object, kindOf(kind), RootRank::ThreadState, true, thread, nullptr});
      },
      [](void* context, const LgFrame* frame, unsigned long thread, int depth) {
        auto& into = *static_cast<Collection*>(context);
        const bool muted = thread == into.own_thread && depth < into.muted_frames;
        const bool library = into.files.contains(fileOf(frame->code));
        into.roots.frames.push_back({*frame, thread, depth, muted, library});
      }};
  lg_visit_roots(&visitor);
  return std::move(collection.roots);
}

std::string threadName(unsigned long thread) {
  PyObject* active = lookUp(moduleDict("threading"), "_active");
  if (active == nullptr || !PyDict_Check(active)) {
    return {};
  }
  PyObject *ident, *object;
  Py_ssize_t position = 0;
  while (PyDict_Next(active, &position, &ident, &object)) {
    if (!PyLong_CheckExact(ident) || PyLong_AsUnsignedLongMask(ident) != thread) {
      continue;
    }
    PyObject* name = lg_inline_attribute(object, "_name");
    if (name == nullptr) {
      name = lookUp(lg_existing_dict(object), "_name");
    }
    return name != nullptr && PyUnicode_Check(name) ? textOf(name) : std::string();
  }
  return {};
}

namespace {

std::string& mainFile() {
  static auto* file = new std::string;
  return *file;
}

} // namespace

void rememberMainFile() {
  PyObject* file = lookUp(moduleDict("__main__"), "__file__");
  if (file != nullptr && PyUnicode_Check(file)) {
    mainFile() = textOf(file, 4096);
  }
}

std::string moduleTitle(PyObject* module_name, PyObject* dict) {
  std::string name = textOf(module_name);
  if (name != "__main__") {
    return name;
  }
  PyObject* file = lookUp(dict, "__file__");
  std::string path = file != nullptr && PyUnicode_Check(file) ? textOf(file, 4096) : mainFile();
  if (path.empty()) {
    return name;
  }
  path = path.substr(folderOf(path).size());
  const auto dot = path.rfind('.');
  return dot == std::string::npos || dot == 0 ? path : path.substr(0, dot);
}

} // namespace leakguard
