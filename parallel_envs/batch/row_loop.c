/* Steps environments one after another, and writes what they return into rows.

   What row_loop.py does in Python, for the case that nearly every step is: an
   environment with one row, a time step of that very class, and arrays of the dtype and
   shape of their spec. Anything else, a failure too, is handed to the row's slot, so
   that what counts as fitting is written down once, in Python.

   NumPy's headers are not needed, so that this can be compiled wherever there is a
   compiler. The first fields of an array are part of NumPy's binary interface and have
   not changed from 1.x to 2.x; `check_layout` compares them with what the buffer
   protocol says, and if they ever differ the module refuses to be imported. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>
#include <time.h>

typedef struct {
  PyObject_HEAD
  char *data;
  int nd;
  Py_ssize_t *dimensions;
  Py_ssize_t *strides;
  PyObject *base;
  PyObject *descr;
  int flags;
} Array;

enum { C_CONTIGUOUS = 1 };

static PyTypeObject *array_type;

/* Where one leaf of every row goes. */
typedef struct {
  PyObject *target; /* The array [rows, ...], kept alive. */
  PyObject *scalar; /* The class of a NumPy scalar of its dtype, or None. */
  Py_ssize_t size;  /* Bytes of one row. */
} Leaf;

typedef struct {
  PyObject_HEAD
  PyObject *slots;          /* A list with one slot for each row. */
  PyObject *faults;         /* What an environment may raise. */
  PyObject *copies;         /* A list, empty unless this is a fork of a worker. */
  PyObject *time_step_type;
  PyObject *keys;           /* Of an observation that is a dict, or None. */
  Py_buffer progress;       /* Words where the row that is at it is noted. */
  Py_ssize_t part, began;   /* Which of them, -1 for none. */
  Py_ssize_t num_buffers, num_leaves;
  Leaf *leaves;             /* [num_buffers, num_leaves] */
} RowLoop;

static PyObject *str_quick, *str_step, *str_take, *str_fail;

/* Returns the array if `object` is one as the functions below expect it. */
static Array *as_target(PyObject *object) {
  Array *array = (Array *)object;
  if (Py_TYPE(object) != array_type || array->nd < 1 ||
      !(array->flags & C_CONTIGUOUS)) {
    PyErr_SetString(PyExc_TypeError, "expected contiguous arrays [rows, ...]");
    return NULL;
  }
  return array;
}

/* Returns whether scalars of the class that belongs to a dtype have its very bytes: not
   where they have units or fields of their own, nor in another byte order. */
static int is_told_by_class(PyObject *descr) {
  PyObject *kind = PyObject_GetAttrString(descr, "kind");
  if (kind == NULL) return -1;
  const char *name = PyUnicode_AsUTF8(kind);
  int is_known = name == NULL ? -1 : strchr("biufcSU", name[0]) != NULL;
  Py_DECREF(kind);
  if (is_known <= 0) return is_known;
  PyObject *is_native = PyObject_GetAttrString(descr, "isnative");
  if (is_native == NULL) return -1;
  int is_told = PyObject_IsTrue(is_native);
  Py_DECREF(is_native);
  return is_told;
}

static int set_leaf(Leaf *leaf, PyObject *object, Py_ssize_t num_rows) {
  Array *array = as_target(object);
  if (array == NULL) return -1;
  if (array->dimensions[0] != num_rows) {
    PyErr_SetString(PyExc_ValueError, "expected a row for each slot");
    return -1;
  }
  PyObject *itemsize = PyObject_GetAttrString(array->descr, "itemsize");
  if (itemsize == NULL) return -1;
  leaf->size = PyLong_AsSsize_t(itemsize);
  Py_DECREF(itemsize);
  if (leaf->size < 0) return -1;
  for (int axis = 1; axis < array->nd; axis++) leaf->size *= array->dimensions[axis];
  int is_told = is_told_by_class(array->descr);
  if (is_told < 0) return -1;
  leaf->scalar = is_told ? PyObject_GetAttrString(array->descr, "type") : Py_None;
  if (leaf->scalar == NULL) return -1;
  if (!is_told) Py_INCREF(Py_None);
  Py_INCREF(object);
  leaf->target = object;
  return 0;
}

/* Writes `value` into a row; returns 0 where it does not fit as it is, -1 on error. */
static int write_leaf(const Leaf *leaf, Py_ssize_t row, PyObject *value) {
  const Array *target = (const Array *)leaf->target;
  char *place = target->data + row * leaf->size;
  if (Py_TYPE(value) == array_type) {
    const Array *array = (const Array *)value;
    if (array->nd != target->nd - 1 || !(array->flags & C_CONTIGUOUS)) return 0;
    if (array->nd > 0 && memcmp(array->dimensions, target->dimensions + 1,
                                (size_t)array->nd * sizeof(Py_ssize_t)) != 0)
      return 0;
    if (array->descr != target->descr) {
      /* What was unpickled has a dtype of its own. */
      int is_same = PyObject_RichCompareBool(array->descr, target->descr, Py_EQ);
      if (is_same <= 0) return is_same;
    }
    memcpy(place, array->data, (size_t)leaf->size);
    return 1;
  }
  if (target->nd != 1 || (PyObject *)Py_TYPE(value) != leaf->scalar) return 0;
  Py_buffer view;
  if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0) {
    PyErr_Clear();
    return 0;
  }
  int fits = view.len == leaf->size;
  if (fits) memcpy(place, view.buf, (size_t)leaf->size);
  PyBuffer_Release(&view);
  return fits;
}

/* Writes a time step into a row; as `write_leaf`. */
static int write_row(const RowLoop *self, const Leaf *leaves, Py_ssize_t row,
                     PyObject *time_step) {
  if ((PyObject *)Py_TYPE(time_step) != self->time_step_type) return 0;
  if (PyTuple_GET_SIZE(time_step) != 4) return 0;
  for (Py_ssize_t n = 0; n < 3; n++) {
    int fits = write_leaf(&leaves[n], row, PyTuple_GET_ITEM(time_step, n));
    if (fits <= 0) return fits;
  }
  PyObject *observation = PyTuple_GET_ITEM(time_step, 3);
  if (self->keys == Py_None) return write_leaf(&leaves[3], row, observation);
  Py_ssize_t num_keys = PyTuple_GET_SIZE(self->keys);
  if (!PyDict_CheckExact(observation) || PyDict_GET_SIZE(observation) != num_keys)
    return 0;
  for (Py_ssize_t n = 0; n < num_keys; n++) {
    PyObject *value =
        PyDict_GetItemWithError(observation, PyTuple_GET_ITEM(self->keys, n));
    if (value == NULL) return PyErr_Occurred() ? -1 : 0;
    int fits = write_leaf(&leaves[3 + n], row, value);
    if (fits <= 0) return fits;
  }
  return 1;
}

static void note(const RowLoop *self, Py_ssize_t row) {
  long long *words = self->progress.buf;
  if (self->part >= 0) words[self->part] = row;
  if (self->began >= 0) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    words[self->began] = now.tv_sec * 1000000000LL + now.tv_nsec;
  }
}

/* Returns the exception that was raised, and clears it. */
static PyObject *raised(void) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyErr_GetRaisedException();
#else
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != NULL) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
#endif
}

/* Steps one row; returns None or what failed, NULL with what goes to the caller. */
static PyObject *step_row(const RowLoop *self, const Leaf *leaves, Py_ssize_t row,
                          PyObject *action) {
  PyObject *slot = PyList_GET_ITEM(self->slots, row), *failure;
  PyObject *step = PyObject_GetAttr(slot, str_quick);
  if (step == NULL) return NULL;
  if (step == Py_None) {
    Py_DECREF(step);
    return PyObject_CallMethodOneArg(slot, str_step, action);
  }
  note(self, row);
  PyObject *time_step = PyObject_CallOneArg(step, action);
  Py_DECREF(step);
  if (time_step == NULL) {
    if (!PyErr_ExceptionMatches(self->faults)) return NULL;
    PyObject *error = raised();
    failure = PyObject_CallMethodOneArg(slot, str_fail, error);
    Py_DECREF(error);
    return failure;
  }
  int is_written = 0;
  if (PyList_GET_SIZE(self->copies) == 0)
    is_written = write_row(self, leaves, row, time_step);
  if (is_written > 0) {
    failure = Py_None;
    Py_INCREF(failure);
  } else {
    PyErr_Clear(); /* The slot meets it again, and knows what it is. */
    failure = PyObject_CallMethodOneArg(slot, str_take, time_step);
  }
  Py_DECREF(time_step);
  return failure;
}

static PyObject *loop_step(RowLoop *self, PyObject *args) {
  Py_ssize_t buffer;
  PyObject *actions, *failures = NULL;
  if (!PyArg_ParseTuple(args, "nO!:step", &buffer, &PyList_Type, &actions)) return NULL;
  if (buffer < 0 || buffer >= self->num_buffers ||
      PyList_GET_SIZE(actions) != PyList_GET_SIZE(self->slots)) {
    PyErr_SetString(PyExc_ValueError, "no such buffer, or not an action for each slot");
    return NULL;
  }
  const Leaf *leaves = self->leaves + buffer * self->num_leaves;
  Py_INCREF(actions);
  for (Py_ssize_t row = 0; row < PyList_GET_SIZE(actions); row++) {
    PyObject *action = PyList_GET_ITEM(actions, row);
    Py_INCREF(action);
    PyObject *failure = step_row(self, leaves, row, action);
    Py_DECREF(action);
    if (failure == NULL) goto error;
    if (failure != Py_None) {
      if (failures == NULL) failures = PyList_New(0);
      if (failures == NULL || PyList_Append(failures, failure) < 0) {
        Py_DECREF(failure);
        goto error;
      }
    }
    Py_DECREF(failure);
  }
  Py_DECREF(actions);
  if (failures == NULL) failures = PyList_New(0);
  return failures;
error:
  Py_DECREF(actions);
  Py_XDECREF(failures);
  return NULL;
}

static int set_leaves(RowLoop *self, PyObject *buffers) {
  Py_ssize_t num_rows = PyList_GET_SIZE(self->slots);
  self->num_leaves = 3 + (self->keys == Py_None ? 1 : PyTuple_GET_SIZE(self->keys));
  Py_ssize_t total = PyList_GET_SIZE(buffers) * self->num_leaves;
  self->leaves = PyMem_Calloc((size_t)total + 1, sizeof(Leaf));
  if (self->leaves == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (; self->num_buffers < PyList_GET_SIZE(buffers); self->num_buffers++) {
    PyObject *arrays = PyList_GET_ITEM(buffers, self->num_buffers);
    if (!PyList_Check(arrays) || PyList_GET_SIZE(arrays) != self->num_leaves) {
      PyErr_SetString(PyExc_ValueError, "expected an array for each leaf");
      return -1;
    }
    Leaf *leaves = self->leaves + self->num_buffers * self->num_leaves;
    for (Py_ssize_t n = 0; n < self->num_leaves; n++)
      if (set_leaf(&leaves[n], PyList_GET_ITEM(arrays, n), num_rows) < 0) return -1;
  }
  return 0;
}

static int set_progress(RowLoop *self, PyObject *words) {
  if (words == Py_None) {
    self->part = self->began = -1;
    return 0;
  }
  if (PyObject_GetBuffer(words, &self->progress, PyBUF_WRITABLE) < 0) return -1;
  Py_ssize_t num_words = self->progress.len / (Py_ssize_t)sizeof(long long);
  if (self->part >= num_words || self->began >= num_words) {
    PyErr_SetString(PyExc_IndexError, "there is no such word");
    return -1;
  }
  return 0;
}

static int loop_init(RowLoop *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"slots", "buffers", "keys",  "time_step_type", "faults",
                          "copies", "words",  "part", "began",          NULL};
  PyObject *slots, *buffers, *keys, *time_step_type, *faults, *copies, *words;
  if (self->slots != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "it is made once");
    return -1;
  }
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "$O!O!OO!O!O!Onn:RowLoop", names, &PyList_Type, &slots,
          &PyList_Type, &buffers, &keys, &PyType_Type, &time_step_type, &PyTuple_Type,
          &faults, &PyList_Type, &copies, &words, &self->part, &self->began))
    return -1;
  if (keys != Py_None && !PyTuple_Check(keys)) {
    PyErr_SetString(PyExc_TypeError, "expected keys in a tuple, or None");
    return -1;
  }
  if (!PyType_IsSubtype((PyTypeObject *)time_step_type, &PyTuple_Type)) {
    PyErr_SetString(PyExc_TypeError, "expected a class of tuples");
    return -1;
  }
  Py_INCREF(slots), self->slots = slots;
  Py_INCREF(keys), self->keys = keys;
  Py_INCREF(time_step_type), self->time_step_type = time_step_type;
  Py_INCREF(faults), self->faults = faults;
  Py_INCREF(copies), self->copies = copies;
  if (set_progress(self, words) < 0) return -1;
  return set_leaves(self, buffers);
}

static int loop_traverse(RowLoop *self, visitproc visit, void *arg) {
  Py_VISIT(self->slots);
  Py_VISIT(self->faults);
  Py_VISIT(self->copies);
  return 0;
}

static int loop_clear(RowLoop *self) {
  Py_CLEAR(self->slots);
  Py_CLEAR(self->faults);
  Py_CLEAR(self->copies);
  return 0;
}

static void loop_dealloc(RowLoop *self) {
  PyObject_GC_UnTrack(self);
  loop_clear(self);
  Py_CLEAR(self->time_step_type);
  Py_CLEAR(self->keys);
  if (self->progress.obj != NULL) PyBuffer_Release(&self->progress);
  if (self->leaves != NULL) {
    /* One buffer more than was finished: its first leaves may have been set. */
    Py_ssize_t end = (self->num_buffers + 1) * self->num_leaves;
    for (Py_ssize_t n = 0; n < end; n++) {
      if (self->leaves[n].target == NULL) break;
      Py_CLEAR(self->leaves[n].target);
      Py_CLEAR(self->leaves[n].scalar);
    }
    PyMem_Free(self->leaves);
  }
  Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef loop_methods[] = {
    {"step", (PyCFunction)loop_step, METH_VARARGS,
     "step(buffer, actions): steps every row; returns a list of what failed."},
    {NULL}};

static PyTypeObject RowLoopType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "parallel_envs.batch._row_loop.RowLoop",
    .tp_doc = "Steps the environments of slots and writes into arrays; see row_loop.py.",
    .tp_basicsize = sizeof(RowLoop),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)loop_init,
    .tp_traverse = (traverseproc)loop_traverse,
    .tp_clear = (inquiry)loop_clear,
    .tp_dealloc = (destructor)loop_dealloc,
    .tp_methods = loop_methods,
};

/* Returns whether what `Array` says of an array is what the buffer protocol says. */
static int is_laid_out(PyObject *object) {
  const Array *array = (const Array *)object;
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) < 0) return -1;
  int is_same = array->data == view.buf && array->nd == view.ndim;
  for (int axis = 0; is_same && axis < view.ndim; axis++)
    is_same = array->dimensions[axis] == view.shape[axis] &&
              array->strides[axis] == view.strides[axis];
  is_same = is_same && !!(array->flags & C_CONTIGUOUS) == PyBuffer_IsContiguous(&view, 'C');
  PyBuffer_Release(&view);
  if (!is_same) return 0;
  PyObject *descr = PyObject_GetAttrString(object, "dtype");
  if (descr == NULL) return -1;
  is_same = descr == array->descr;
  Py_DECREF(descr);
  return is_same;
}

/* Takes arrays of several shapes and strides; raises ImportError if they surprise. */
static int check_layout(PyObject *numpy) {
  PyObject *whole = PyObject_CallMethod(numpy, "zeros", "((iii)s)", 2, 3, 5, "int16");
  if (whole == NULL) return -1;
  PyObject *turned = PyObject_GetAttrString(whole, "T");
  PyObject *scalar = PyObject_CallMethod(numpy, "zeros", "(()s)", "float64");
  int fits = -1;
  if (turned != NULL && scalar != NULL) {
    fits = is_laid_out(whole);
    if (fits > 0) fits = is_laid_out(turned);
    if (fits > 0) fits = is_laid_out(scalar);
  }
  Py_DECREF(whole);
  Py_XDECREF(turned);
  Py_XDECREF(scalar);
  if (fits == 0)
    PyErr_SetString(PyExc_ImportError, "arrays of this NumPy are laid out otherwise");
  return fits > 0 ? 0 : -1;
}

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_row_loop",
    .m_doc = "The inner loop of a batch, compiled; see row_loop.py.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__row_loop(void) {
  PyObject *numpy = PyImport_ImportModule("numpy");
  if (numpy == NULL) return NULL;
  array_type = (PyTypeObject *)PyObject_GetAttrString(numpy, "ndarray");
  int is_well = array_type != NULL && check_layout(numpy) == 0;
  Py_DECREF(numpy);
  if (!is_well || PyType_Ready(&RowLoopType) < 0) return NULL;
  str_quick = PyUnicode_InternFromString("quick");
  str_step = PyUnicode_InternFromString("step");
  str_take = PyUnicode_InternFromString("take");
  str_fail = PyUnicode_InternFromString("fail");
  if (!str_quick || !str_step || !str_take || !str_fail) return NULL;
  PyObject *module = PyModule_Create(&module_def);
  if (module == NULL) return NULL;
  Py_INCREF(&RowLoopType);
  if (PyModule_AddObject(module, "RowLoop", (PyObject *)&RowLoopType) < 0) {
    Py_DECREF(&RowLoopType);
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
