/* Compiled as C, with the interpreter's include/internal folder on the include path. */
#define Py_BUILD_CORE 1
#include <Python.h>

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000
#error "frame and collector layouts are known for CPython 3.11, 3.12 and 3.13 only"
#endif
#ifdef Py_GIL_DISABLED
#error "free-threaded builds are not supported: the GIL is the lock that keeps the heap in place"
#endif

#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_gc.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pystate.h>
#include <opcode.h>
#if PY_VERSION_HEX >= 0x030d0000
#include <internal/pycore_genobject.h>
#endif

#include "cpython_layout.h"

/* ---- frames ---------------------------------------------------------------------------------------------------- */

static _PyInterpreterFrame* innermost_frame(PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030d0000
  return thread->current_frame;
#else
  return thread->cframe ? thread->cframe->current_frame : NULL;
#endif
}

/* NULL for the frames that 3.12 and later put on the C stack at each entry of the evaluation loop. */
static PyCodeObject* code_of(const _PyInterpreterFrame* frame) {
  if (frame->owner > FRAME_OWNED_BY_FRAME_OBJECT)
    return NULL;
#if PY_VERSION_HEX >= 0x030d0000
  return frame->f_executable && PyCode_Check(frame->f_executable) ? (PyCodeObject*)frame->f_executable : NULL;
#else
  return frame->f_code;
#endif
}

static int lasti_of(const _PyInterpreterFrame* frame, PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030d0000
  return (int)((char*)frame->instr_ptr - (char*)_PyCode_CODE(code));
#else
  return (int)((char*)frame->prev_instr - (char*)_PyCode_CODE(code));
#endif
}

static char end_of_stack;

int lg_own_frames(void** cursor, LgFrameRef* out, int max) {
  if (*cursor == &end_of_stack)
    return 0;
  _PyInterpreterFrame* frame = *cursor;
  if (!frame) {
    PyThreadState* thread = PyGILState_GetThisThreadState();
    frame = thread ? innermost_frame(thread) : NULL;
  }
  int count = 0;
  for (; frame && count < max; frame = frame->previous) {
    PyCodeObject* code = code_of(frame);
    if (!code)
      continue;
    out[count].code = code;
    out[count].lasti_bytes = lasti_of(frame, code);
    out[count].slots = (void**)frame->localsplus;
    count++;
  }
  *cursor = frame ? (void*)frame : &end_of_stack;
  return count;
}

void* lg_first_slot(const LgFrameRef* frame) {
  return ((PyCodeObject*)frame->code)->co_nlocalsplus > 0 ? frame->slots[0] : NULL;
}

static int describe(_PyInterpreterFrame* frame, LgFrame* out) {
  PyCodeObject* code = code_of(frame);
  if (!code)
    return 0;
  out->frame = frame;
  out->code = (PyObject*)code;
#if PY_VERSION_HEX >= 0x030c0000
  out->function = frame->f_funcobj;
#else
  out->function = (PyObject*)frame->f_func;
#endif
  out->locals_dict = frame->f_locals;
  out->frame_object = (PyObject*)frame->frame_obj;
  out->slots = frame->localsplus;
  out->named_slots = code->co_nlocalsplus;
  /* stacktop is -1 while the frame runs; once stored it counts from localsplus[0] */
  out->stack_depth = frame->stacktop >= code->co_nlocalsplus ? frame->stacktop - code->co_nlocalsplus : -1;
  out->stack_limit = code->co_stacksize;
  out->lasti_bytes = lasti_of(frame, code);
  out->owner = frame->owner;
  out->generator = frame->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject*)_PyFrame_GetGenerator(frame) : NULL;
  return 1;
}

int lg_frame_of(PyObject* object, LgFrame* out) {
  if (PyGen_Check(object) || PyCoro_CheckExact(object) || PyAsyncGen_CheckExact(object)) {
    PyGenObject* generator = (PyGenObject*)object;
    if (generator->gi_frame_state >= FRAME_COMPLETED)
      return 0;
    return describe((_PyInterpreterFrame*)generator->gi_iframe, out);
  }
  if (PyFrame_Check(object)) {
    struct _frame* frame = (struct _frame*)object;
    return frame->f_frame ? describe(frame->f_frame, out) : 0;
  }
  return 0;
}

int lg_frame_line(const LgFrame* frame) {
  return PyCode_Addr2Line((PyCodeObject*)frame->code, frame->lasti_bytes);
}

PyObject* lg_slot_name(PyObject* code, int slot) {
  PyObject* names = ((PyCodeObject*)code)->co_localsplusnames;
  return names && PyTuple_Check(names) && slot < PyTuple_GET_SIZE(names) ? PyTuple_GET_ITEM(names, slot) : NULL;
}

int lg_slot_kind(PyObject* code, int slot) {
  PyObject* kinds = ((PyCodeObject*)code)->co_localspluskinds;
  if (!kinds || !PyBytes_Check(kinds) || slot >= PyBytes_GET_SIZE(kinds))
    return LG_SLOT_LOCAL;
  char kind = PyBytes_AS_STRING(kinds)[slot];
  return kind & CO_FAST_FREE ? LG_SLOT_FREE : kind & CO_FAST_CELL ? LG_SLOT_CELL : LG_SLOT_LOCAL;
}

static int binds(int opcode, int argument, int slot) {
  if (opcode == STORE_FAST || opcode == STORE_DEREF)
    return argument == slot;
#if PY_VERSION_HEX >= 0x030d0000
  if (opcode == STORE_FAST_STORE_FAST)
    return (argument >> 4) == slot || (argument & 15) == slot;
  if (opcode == STORE_FAST_LOAD_FAST)
    return (argument >> 4) == slot;
#endif
  return 0;
}

int lg_slot_line(PyObject* object, int slot) {
  PyCodeObject* code = (PyCodeObject*)object;
  int arguments = code->co_argcount + code->co_kwonlyargcount;
  arguments += !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
  if (slot < arguments)
    return code->co_firstlineno;
  PyObject* bytes = PyCode_GetCode(code); /* without the specialised instructions */
  if (!bytes) {
    PyErr_Clear();
    return -1;
  }
  const unsigned char* unit = (const unsigned char*)PyBytes_AS_STRING(bytes);
  Py_ssize_t size = PyBytes_GET_SIZE(bytes);
  int line = -1, argument = 0;
  for (Py_ssize_t i = 0; i + 1 < size && line < 0; i += 2) {
    argument = argument << 8 | unit[i + 1];
    if (unit[i] == EXTENDED_ARG)
      continue;
    if (binds(unit[i], argument, slot))
      line = PyCode_Addr2Line(code, (int)i);
    argument = 0;
  }
  Py_DECREF(bytes);
  return line;
}

/* ---- roots ----------------------------------------------------------------------------------------------------- */

static int shares_our_gil(PyInterpreterState* interpreter) {
#if PY_VERSION_HEX >= 0x030c0000
  return interpreter->ceval.gil == PyThreadState_Get()->interp->ceval.gil;
#else
  (void)interpreter;
  return 1;
#endif
}

static void show(const LgRootVisitor* visitor, void* object, LgRootKind kind, unsigned long thread) {
  if (object)
    visitor->root(visitor->context, (PyObject*)object, kind, thread);
}

static void visit_thread(PyThreadState* thread, const LgRootVisitor* visitor) {
  unsigned long id = thread->thread_id;
#if PY_VERSION_HEX >= 0x030c0000
  show(visitor, thread->current_exception, LG_ROOT_EXCEPTION_RAISED, id);
#else
  show(visitor, thread->curexc_type, LG_ROOT_EXCEPTION_RAISED, id);
  show(visitor, thread->curexc_value, LG_ROOT_EXCEPTION_RAISED, id);
  show(visitor, thread->curexc_traceback, LG_ROOT_EXCEPTION_RAISED, id);
#endif
  /* deeper items of the handled-exception stack live in generators, whose own tp_traverse shows them */
  show(visitor, thread->exc_state.exc_value, LG_ROOT_EXCEPTION_HANDLED, id);
  show(visitor, thread->dict, LG_ROOT_THREAD_DICT, id);
  show(visitor, thread->context, LG_ROOT_CONTEXT, id);
  show(visitor, thread->c_traceobj, LG_ROOT_TRACE, id);
  show(visitor, thread->c_profileobj, LG_ROOT_PROFILE, id);
  show(visitor, thread->async_exc, LG_ROOT_ASYNC, id);
  show(visitor, thread->async_gen_firstiter, LG_ROOT_ASYNC, id);
  show(visitor, thread->async_gen_finalizer, LG_ROOT_ASYNC, id);
#if PY_VERSION_HEX >= 0x030d0000
  show(visitor, thread->threading_local_key, LG_ROOT_THREAD_DICT, id);
  show(visitor, thread->threading_local_sentinel, LG_ROOT_THREAD_DICT, id);
#endif
  int depth = 0;
  for (_PyInterpreterFrame* frame = innermost_frame(thread); frame; frame = frame->previous) {
    LgFrame described;
    if (describe(frame, &described))
      visitor->frame(visitor->context, &described, id, depth++);
  }
}

void lg_visit_roots(const LgRootVisitor* visitor) {
  for (PyInterpreterState* in = PyInterpreterState_Head(); in; in = PyInterpreterState_Next(in)) {
    if (!shares_our_gil(in))
      continue;
    for (PyThreadState* t = PyInterpreterState_ThreadHead(in); t; t = PyThreadState_Next(t))
      visit_thread(t, visitor);
    for (int i = 0; i < in->atexit.ncallbacks; i++) {
      if (!in->atexit.callbacks[i])
        continue;
      show(visitor, in->atexit.callbacks[i]->func, LG_ROOT_ATEXIT, 0);
      show(visitor, in->atexit.callbacks[i]->args, LG_ROOT_ATEXIT, 0);
      show(visitor, in->atexit.callbacks[i]->kwargs, LG_ROOT_ATEXIT, 0);
    }
#if PY_VERSION_HEX >= 0x030c0000
    show(visitor, in->imports.modules, LG_ROOT_INTERPRETER, 0);
#else
    show(visitor, in->modules, LG_ROOT_INTERPRETER, 0);
#endif
    show(visitor, in->sysdict, LG_ROOT_INTERPRETER, 0);
    show(visitor, in->builtins, LG_ROOT_INTERPRETER, 0);
    show(visitor, in->dict, LG_ROOT_INTERPRETER, 0);
    show(visitor, in->audit_hooks, LG_ROOT_INTERPRETER, 0);
  }
}

unsigned long lg_current_thread(void) {
  return PyThreadState_Get()->thread_id;
}

/* ---- the collector --------------------------------------------------------------------------------------------- */

static void visit_generation(PyGC_Head* head, int generation, LgObjectVisitor visit, void* context) {
  for (PyGC_Head* g = _PyGCHead_NEXT(head); g != head; g = _PyGCHead_NEXT(g)) {
    visit((PyObject*)(g + 1), generation, context);
  }
}

void lg_visit_collectable(LgObjectVisitor visit, void* context) {
  for (PyInterpreterState* in = PyInterpreterState_Head(); in; in = PyInterpreterState_Next(in)) {
    if (!shares_our_gil(in))
      continue;
    for (int i = 0; i < NUM_GENERATIONS; i++)
      visit_generation(&in->gc.generations[i].head, i, visit, context);
    visit_generation(&in->gc.permanent_generation.head, LG_PERMANENT, visit, context);
  }
}

int lg_is_immortal(PyObject* object) {
#if PY_VERSION_HEX >= 0x030c0000
  return _Py_IsImmortal(object);
#else
  (void)object;
  return 0;
#endif
}

/* ---- instance attributes --------------------------------------------------------------------------------------- */

static PyDictValues* inline_values(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT))
    return NULL;
#if PY_VERSION_HEX >= 0x030d0000
  if (!(type->tp_flags & Py_TPFLAGS_INLINE_VALUES))
    return NULL;
  PyDictValues* values = _PyObject_InlineValues(object); /* a dictionary made later may share them */
  return values->valid ? values : NULL;
#elif PY_VERSION_HEX >= 0x030c0000
  PyDictOrValues either = *_PyObject_DictOrValuesPointer(object);
  return _PyDictOrValues_IsValues(either) && either.dict ? _PyDictOrValues_GetValues(either) : NULL;
#else
  return *_PyObject_ValuesPointer(object);
#endif
}

static PyDictKeysObject* shared_keys(PyObject* object) {
  return ((PyHeapTypeObject*)Py_TYPE(object))->ht_cached_keys;
}

PyObject* lg_existing_dict(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
#if PY_VERSION_HEX >= 0x030d0000
    return (PyObject*)_PyObject_GetManagedDict(object);
#elif PY_VERSION_HEX >= 0x030c0000
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(object);
    return _PyDictOrValues_IsValues(either) ? NULL : either.dict;
#else
    return *_PyObject_ManagedDictPointer(object);
#endif
  }
  Py_ssize_t offset = type->tp_dictoffset;
  if (offset == 0)
    return NULL;
  if (offset < 0) { /* counted from the end of a variable-sized object */
    Py_ssize_t items = Py_SIZE(object);
    offset += (Py_ssize_t)_PyObject_VAR_SIZE(type, items < 0 ? -items : items);
  }
  return *(PyObject**)((char*)object + offset);
}

int lg_visit_attributes(PyObject* object, visitproc visit, void* arg) {
  PyDictValues* values = inline_values(object);
  if (values) {
    PyDictKeysObject* keys = shared_keys(object);
    Py_ssize_t count = keys ? keys->dk_nentries : 0;
    for (Py_ssize_t i = 0; i < count; i++)
      Py_VISIT(values->values[i]);
  }
  PyObject* dict = lg_existing_dict(object);
  Py_VISIT(dict);
  return 0;
}

PyObject* lg_inline_attribute_name(PyObject* object, PyObject* child) {
  PyDictValues* values = inline_values(object);
  PyDictKeysObject* keys = values ? shared_keys(object) : NULL;
  if (!keys)
    return NULL;
  for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
    if (values->values[i] == child)
      return DK_UNICODE_ENTRIES(keys)[i].me_key;
  }
  return NULL;
}

PyObject* lg_inline_attribute(PyObject* object, const char* name) {
  PyDictValues* values = inline_values(object);
  PyDictKeysObject* keys = values ? shared_keys(object) : NULL;
  if (!keys)
    return NULL;
  for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
    PyObject* key = DK_UNICODE_ENTRIES(keys)[i].me_key;
    if (key && PyUnicode_CompareWithASCIIString(key, name) == 0)
      return values->values[i];
  }
  return NULL;
}

/* ---- types and code -------------------------------------------------------------------------------------------- */

PyObject* lg_type_dict(PyTypeObject* type) {
  PyObject* dict = type->tp_dict;
#if PY_VERSION_HEX >= 0x030c0000
  if (!dict && (dict = PyType_GetDict(type)))
    Py_DECREF(dict); /* the type keeps it alive */
#endif
  return dict;
}

void lg_visit_static_type(PyTypeObject* type, visitproc visit, void* arg) {
  /* tp_base of a static type is not a counted reference */
  PyObject* owned[] = {lg_type_dict(type), type->tp_bases, type->tp_mro, type->tp_cache};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
    if (owned[i])
      visit(owned[i], arg);
  }
}

int lg_visit_code(PyObject* object, visitproc visit, void* arg) {
  PyCodeObject* code = (PyCodeObject*)object;
  Py_VISIT(code->co_consts);
  Py_VISIT(code->co_names);
  Py_VISIT(code->co_localsplusnames);
  Py_VISIT(code->co_exceptiontable);
#if PY_VERSION_HEX >= 0x030c0000
  if (code->_co_cached) {
    Py_VISIT(code->_co_cached->_co_varnames);
    Py_VISIT(code->_co_cached->_co_cellvars);
    Py_VISIT(code->_co_cached->_co_freevars);
  }
#endif
  return 0;
}
