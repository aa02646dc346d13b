// Keeps processes that end right after a backward pass from aborting.
//
// When the interpreter finalises, CPython before 3.14 ends every other thread
// that asks for the GIL with pthread_exit.  PyTorch's autograd threads may
// still be dropping the graph then, and the forced unwinding through their
// noexcept destructors calls std::terminate.  A short script that ends with
// backward() met this in more than half of its runs on the fake (how often on a
// GPU was not measured).  CPython 3.14 lets such threads sleep forever, and so
// do we, for these threads only.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

extern "C" __attribute__((visibility("default"), noreturn)) void pthread_exit(void* result) {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  if (!std::strncmp(name, "pt_autograd", 11)) {
    // PyTorch's shutdown would wait ten seconds for the sleeper.
    setenv("TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "0", 0);
    for (;;)
      pause();
  }
  static const auto real = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_NEXT, "pthread_exit"));
  real(result);
  __builtin_unreachable();
}
