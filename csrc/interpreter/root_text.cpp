// Roots in words: the other half of HolderChain.
#include "interpreter/holder_chain.h"

namespace leakguard {

namespace {

std::string baseName(const std::string& file) {
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? file : file.substr(slash + 1);
}

std::string inQuotes(const std::string& text) {
  return "'" + text + "'";
}

} // namespace

HolderRoot HolderChain::describeRoot(const HeapWalk::Root& root, const std::vector<Link>& links) const {
  HolderRoot out;
  const HolderLink* first = links.empty() ? nullptr : &links.front().text;
  if (root.thread != 0 && root.thread != lg_current_thread()) {
    out.thread = threadName(root.thread);
    if (out.thread.empty()) {
      out.thread = "another thread";
    }
  }
  switch (root.kind) {
    case RootKind::ModuleGlobals:
      if (first && (first->edge == kNotebookOutput || first->edge == kLastException)) {
        out.kind = first->edge;
        out.name = first->name;
        out.text = out.kind + " " + out.name;
        return out;
      }
      out.kind = "module global";
      out.module = moduleTitle(root.module_name, walk_.objectAt(root.node));
      out.name = first ? first->name : "";
      out.text = out.kind + " " + out.module + (out.name.empty() ? "" : "." + out.name);
      if (first) {
        out.file = first->file;
      }
      return out;
    case RootKind::RunningFrame:
    case RootKind::Temporary: {
      out.kind = first ? first->edge : "frame";
      out.name = first ? first->name : "";
      const LgFrame& frame = walk_.frameAt(root.frame).frame;
      PyObject* code = frame.code;
      out.function = functionTitle(code);
      out.file = fileOf(code);
      out.line = first && first->line > 0 ? first->line : lg_frame_line(&frame);
      out.text = out.kind + (out.name.empty() ? "" : " " + inQuotes(out.name)) + " in " + out.function +
          (out.function.starts_with('<') ? "" : "()") + " at " + baseName(out.file) + ":" + std::to_string(out.line);
      break;
    }
    case RootKind::ExceptionRaised:
      out.kind = "exception being raised";
      break;
    case RootKind::ExceptionHandled:
      out.kind = "exception being handled";
      break;
    case RootKind::ThreadDictionary:
      out.kind = "thread state";
      break;
    case RootKind::ContextVariables:
      out.kind = "context variable";
      out.name = first ? first->name : "";
      break;
    case RootKind::TraceFunction:
      out.kind = "trace function";
      break;
    case RootKind::ProfileFunction:
      out.kind = "profile function";
      break;
    case RootKind::AsyncState:
      out.kind = "asynchronous generator hooks";
      break;
    case RootKind::AtexitCallback:
      out.kind = "atexit callback";
      break;
    case RootKind::Interpreter:
      out.kind = "interpreter";
      break;
    case RootKind::Native:
      out.kind = "native reference";
      break;
  }
  if (out.text.empty()) {
    out.text = out.kind + (out.name.empty() ? "" : " " + inQuotes(out.name));
  }
  if (!out.thread.empty()) {
    out.text += ", thread " + inQuotes(out.thread);
  }
  return out;
}

} // namespace leakguard
