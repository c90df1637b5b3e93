/* Waits for rounds in a worker, and has them done, until there is something else to do.

   What attention.py and worker.py do in Python, for rounds of which there is nothing to
   tell. With a process for each environment that is a good part of what a batch costs:
   every worker wakes, looks, steps, and counts itself as done, each time. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  PyObject_HEAD
  Py_buffer words;                     /* The control block. */
  Py_ssize_t command, asked, done, began; /* Indices of words in it. */
  int go[2], channel, countdown, bell; /* Descriptors. */
  long long spin;                      /* Nanoseconds; 0 for not at all. */
  int is_eager;                        /* Whether the last round came soon. */
} BellLoop;

static int64_t *word(const BellLoop *self, Py_ssize_t index) {
  return (int64_t *)self->words.buf + index;
}

static int64_t load(const BellLoop *self, Py_ssize_t index) {
  return __atomic_load_n(word(self, index), __ATOMIC_ACQUIRE);
}

static void store(const BellLoop *self, Py_ssize_t index, int64_t value) {
  __atomic_store_n(word(self, index), value, __ATOMIC_RELEASE);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Waits for the round after `done`, or a message; returns what `poll` does. */
static int wait_for_either(BellLoop *self, int64_t done, struct pollfd *both) {
  int64_t begun = self->spin > 0 ? now() : 0;
  int is_asked = 0;
  if (self->spin > 0 && self->is_eager) {
    while (!(is_asked = load(self, self->asked) != done)) {
      if (now() - begun > self->spin) break;
      sched_yield();
    }
  }
  both[0].fd = self->go[(done + 1) & 1];
  both[1].fd = self->channel;
  both[0].events = both[1].events = POLLIN;
  both[0].revents = both[1].revents = 0;
  int num_events = poll(both, 2, is_asked ? 0 : -1);
  if (self->spin > 0) self->is_eager = is_asked || now() - begun < self->spin;
  return num_events;
}

/* Takes a token from an event counter; returns 0 where there is none. */
static int take(int counter) {
  uint64_t value;
  ssize_t size;
  do size = read(counter, &value, sizeof value);
  while (size < 0 && errno == EINTR);
  return size == sizeof value;
}

/* Counts this worker as done; the last one rings the bell. Returns -1 on error. */
static int answer(const BellLoop *self) {
  const uint64_t one = 1;
  if (take(self->countdown)) return 0;
  while (write(self->bell, &one, sizeof one) < 0)
    if (errno != EINTR) {
      PyErr_SetFromErrno(PyExc_OSError);
      return -1;
    }
  return 0;
}

/* serve(round, done): see `loop_methods`. */
static PyObject *loop_serve(BellLoop *self, PyObject *args) {
  PyObject *round;
  long long done;
  if (!PyArg_ParseTuple(args, "OL:serve", &round, &done)) return NULL;
  for (;;) {
    struct pollfd both[2];
    int num_events;
    Py_BEGIN_ALLOW_THREADS
    num_events = wait_for_either(self, done, both);
    Py_END_ALLOW_THREADS
    if (num_events < 0 && errno != EINTR) return PyErr_SetFromErrno(PyExc_OSError);
    if (PyErr_CheckSignals() < 0) return NULL;
    if (num_events < 0) continue;
    if (both[1].revents) return Py_BuildValue("(LO)", done, Py_None);
    int64_t asked = load(self, self->asked);
    if (asked == done) continue;
    store(self, self->began, now());
    PyObject *command = PyLong_FromLongLong(load(self, self->command));
    if (command == NULL) return NULL;
    PyObject *news = PyObject_CallOneArg(round, command);
    Py_DECREF(command);
    if (news == NULL) return NULL;
    if (news != Py_None) return Py_BuildValue("(LN)", (long long)asked, news);
    Py_DECREF(news);
    done = asked;
    store(self, self->done, done);
    if (answer(self) < 0) return NULL;
  }
}

static int loop_init(BellLoop *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"words", "command",   "asked", "done", "began", "go",
                          "channel", "countdown", "bell",  "spin", NULL};
  PyObject *words;
  if (self->words.obj != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "it is made once");
    return -1;
  }
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$Onnnn(ii)iiiL:BellLoop", names,
                                   &words, &self->command, &self->asked, &self->done,
                                   &self->began, &self->go[0], &self->go[1],
                                   &self->channel, &self->countdown, &self->bell,
                                   &self->spin))
    return -1;
  if (PyObject_GetBuffer(words, &self->words, PyBUF_WRITABLE) < 0) return -1;
  Py_ssize_t size = self->words.len / (Py_ssize_t)sizeof(int64_t);
  const Py_ssize_t indices[] = {self->command, self->asked, self->done, self->began};
  for (int n = 0; n < 4; n++)
    if (indices[n] < 0 || indices[n] >= size) {
      PyErr_SetString(PyExc_IndexError, "there is no such word");
      return -1;
    }
  self->is_eager = 1;
  return 0;
}

static void loop_dealloc(BellLoop *self) {
  if (self->words.obj != NULL) PyBuffer_Release(&self->words);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef loop_methods[] = {
    {"serve", (PyCFunction)loop_serve, METH_VARARGS,
     "serve(round, done): has rounds done as they are rung for.\n\n"
     "Calls round(command) for each. Returns the number of the last round that is done\n"
     "and None when a message has come; or the number of a round and what it returned\n"
     "if that is not None, which is then yet to be told and counted as done."},
    {NULL}};

static PyTypeObject BellLoopType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "parallel_envs.process._bell_loop.BellLoop",
    .tp_doc = "A worker's wait for rounds; see attention.py.",
    .tp_basicsize = sizeof(BellLoop),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)loop_init,
    .tp_dealloc = (destructor)loop_dealloc,
    .tp_methods = loop_methods,
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_bell_loop",
    .m_doc = "A worker's wait for rounds, compiled; see attention.py.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__bell_loop(void) {
  if (PyType_Ready(&BellLoopType) < 0) return NULL;
  PyObject *module = PyModule_Create(&module_def);
  if (module == NULL) return NULL;
  Py_INCREF(&BellLoopType);
  if (PyModule_AddObject(module, "BellLoop", (PyObject *)&BellLoopType) < 0) {
    Py_DECREF(&BellLoopType);
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
