/* The only window on CPython's private layouts (3.11, 3.12 and 3.13; see cpython_layout.c).
 *
 * Plain C on purpose: the interpreter's internal headers are not made for C++. Every object pointer handed out is
 * borrowed, no function changes a reference count or runs user code, and all but lg_own_frames need the GIL, which is
 * the lock that keeps what they read in place. */
#ifndef LEAKGUARD_INTERPRETER_CPYTHON_LAYOUT_H
#define LEAKGUARD_INTERPRETER_CPYTHON_LAYOUT_H

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- this thread's own frames: the hot path, no GIL ------------------------------------------------------------ */

typedef struct LgFrameRef {
  void* code; /* PyCodeObject*, alive as long as its frame is */
  void** slots; /* the frame's locals, cells and free variables; not looked at before somebody asks */
  int lasti_bytes; /* instruction offset in bytes; negative before the first instruction */
} LgFrameRef;

/* Fills out with up to max frames of the calling thread, innermost first. *cursor is NULL at the first call and moves
 * on by itself; 0 is the end (and the answer for a thread Python does not know). Needs no GIL: only this thread can
 * push or pop its frames, and each frame owns its code. Frames the interpreter makes for itself are skipped. */
int lg_own_frames(void** cursor, LgFrameRef* out, int max);
/* The first argument of a frame that still runs, or the cell that holds it; NULL when unbound or absent. */
void* lg_first_slot(const LgFrameRef* frame);

/* ---- frames, under the GIL ------------------------------------------------------------------------------------- */

enum { LG_OWNED_BY_THREAD = 0, LG_OWNED_BY_GENERATOR = 1, LG_OWNED_BY_FRAME_OBJECT = 2 };

typedef struct LgFrame {
  void* frame; /* identity of the frame while it lives */
  PyObject* code; /* code object, never NULL */
  PyObject* function; /* owned by the frame, or NULL */
  PyObject* locals_dict; /* namespace of a class body or of exec(), NULL for functions; never made by us */
  PyObject* frame_object; /* PyFrameObject, if one was made */
  PyObject* generator; /* the generator, coroutine or async generator the frame lives in, else NULL */
  PyObject** slots; /* locals, cells and free variables, then the value stack */
  int named_slots; /* how many slots have a name */
  int stack_depth; /* live value-stack slots; -1: the interpreter keeps the depth in a register right now */
  int stack_limit; /* most value-stack slots the code ever uses */
  int lasti_bytes;
  int owner; /* LG_OWNED_BY_... */
} LgFrame;

/* Frame of a generator, coroutine, async generator or frame object; 0 when there is none (any more). */
int lg_frame_of(PyObject* object, LgFrame* out);
int lg_frame_line(const LgFrame* frame); /* 1-based, or -1 */

enum { LG_SLOT_LOCAL = 0, LG_SLOT_CELL = 1, LG_SLOT_FREE = 2 };
PyObject* lg_slot_name(PyObject* code, int slot); /* str or NULL */
int lg_slot_kind(PyObject* code, int slot); /* LG_SLOT_... */
/* Line where the code first binds the slot (for an argument, the line of the def); -1 if it never does. Makes one
 * bytes object for the time of the call. */
int lg_slot_line(PyObject* code, int slot);

/* ---- roots ----------------------------------------------------------------------------------------------------- */

typedef enum LgRootKind {
  LG_ROOT_EXCEPTION_RAISED = 1,
  LG_ROOT_EXCEPTION_HANDLED,
  LG_ROOT_THREAD_DICT,
  LG_ROOT_CONTEXT,
  LG_ROOT_TRACE,
  LG_ROOT_PROFILE,
  LG_ROOT_ASYNC,
  LG_ROOT_ATEXIT,
  LG_ROOT_INTERPRETER
} LgRootKind;

typedef struct LgRootVisitor {
  void* context;
  /* one counted reference that a thread state or the interpreter holds; thread is 0 for the interpreter's own */
  void (*root)(void* context, PyObject* object, LgRootKind kind, unsigned long thread);
  /* one frame on a thread's stack; depth 0 is the innermost */
  void (*frame)(void* context, const LgFrame* frame, unsigned long thread, int depth);
} LgRootVisitor;

/* Every interpreter that shares this thread's GIL; one with a GIL of its own runs meanwhile and cannot be read. */
void lg_visit_roots(const LgRootVisitor* visitor);
unsigned long lg_current_thread(void); /* same numbering as above: threading.get_ident() */

/* ---- the collector --------------------------------------------------------------------------------------------- */

/* Generation a visited object is in: 0, 1, 2, or LG_PERMANENT after gc.freeze(). */
enum { LG_PERMANENT = 3 };
typedef void (*LgObjectVisitor)(PyObject* object, int generation, void* context);
void lg_visit_collectable(LgObjectVisitor visit, void* context);

int lg_is_immortal(PyObject* object);

/* ---- references that have no public accessor ------------------------------------------------------------------- */

/* The instance's __dict__ if it exists as an object, else NULL. Never makes one. */
PyObject* lg_existing_dict(PyObject* object);
/* Shows the values stored inside the instance, and __dict__ as one child. */
int lg_visit_attributes(PyObject* object, visitproc visit, void* arg);
/* Key under which child is stored inside the instance; NULL when it is not. */
PyObject* lg_inline_attribute_name(PyObject* object, PyObject* child);
/* The other way round: value stored inside the instance under name, or NULL. */
PyObject* lg_inline_attribute(PyObject* object, const char* name);
/* The counted references of a type that is not on the heap (its own tp_traverse refuses). */
void lg_visit_static_type(PyTypeObject* type, visitproc visit, void* arg);
/* Code objects are not collectable and have no tp_traverse. */
int lg_visit_code(PyObject* code, visitproc visit, void* arg);
/* Dictionary of a type; builtin types keep theirs per interpreter since 3.12. */
PyObject* lg_type_dict(PyTypeObject* type);

#ifdef __cplusplus
}
#endif

#endif
