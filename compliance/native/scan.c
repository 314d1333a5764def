/* Finds and checks the records of log text without decoding them: what compliance/scanned.py builds on.

   This is an accelerator. It takes only text in which nothing is doubtful, and says no to all else, which then is read
   in another way (compliance/fast.py, compliance/careful.py, which read all that this takes alike). A text is taken if
   every token ":::MLLOG " starts one JSON object up to the end of its line, with exactly the six members that MLPerf's
   logger writes, each of its type, no member twice in any object, all of it plain ASCII, no number with more than 18
   digits before the point or an exponent of more than two, nothing nested deeper than MOST_DEPTH. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "record.h"
#include "words.h"

#define VERSION 3 /* another one whenever what this takes or gives changes; compliance/scanned.py asks for it */
#define SLOTS 256 /* of the table of keys seen; a power of two */

/* A growing array of 64-bit numbers. */
typedef struct {
    int64_t *items;
    Py_ssize_t count, room;
} Numbers;

/* What is known of the records so far: the numbers of those of each key in a dict, and in a table before it that is
   faster and may miss; their times; where each begins and ends; the numbers of those that are earlier than the one
   before; and the earliest and the latest time. */
typedef struct {
    PyObject *places, *steps;
    struct {
        Span key;
        PyObject *list; /* borrowed from `places` */
    } slots[SLOTS];
    Numbers times, spans;
    int64_t earliest, latest;
} Found;

static int push(Numbers *numbers, int64_t item)
{
    if (numbers->count == numbers->room) {
        Py_ssize_t room = numbers->room ? 2 * numbers->room : 1024;
        int64_t *items = PyMem_Realloc(numbers->items, (size_t)room * sizeof *items);
        if (items == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        numbers->items = items;
        numbers->room = room;
    }
    numbers->items[numbers->count++] = item;
    return 0;
}

static PyObject *as_bytes(const Numbers *numbers)
{
    return PyBytes_FromStringAndSize((const char *)numbers->items, numbers->count * (Py_ssize_t)sizeof(int64_t));
}

/* The list of `key` in the dict of places, new if need be; borrowed. NULL with an exception set where that fails. */
static PyObject *list_of(PyObject *places, Span key)
{
    PyObject *list = NULL, *name = PyUnicode_DecodeASCII((const char *)key.start, key.size, "strict");
    if (name == NULL)
        return NULL;
    list = PyDict_GetItemWithError(places, name);
    if (list == NULL && !PyErr_Occurred()) {
        list = PyList_New(0);
        if (list != NULL && PyDict_SetItem(places, name, list) < 0)
            Py_CLEAR(list);
        Py_XDECREF(list); /* the dict keeps it */
    }
    Py_DECREF(name);
    return list;
}

/* Note the next record. Returns -1 with an exception set where that fails. */
static int note(Found *found, Record record, int64_t start, int64_t stop)
{
    PyObject *item, *list;
    int status;
    Span key = record.key;
    Py_ssize_t number = found->times.count;
    size_t slot = (size_t)key.size;
    if (key.size)
        slot = slot * 31 + key.start[0] * 7u + key.start[key.size - 1] * 5u + key.start[key.size / 2];
    slot &= SLOTS - 1;
    list = found->slots[slot].list;
    if (list == NULL || !same(found->slots[slot].key, key)) {
        list = list_of(found->places, key);
        if (list == NULL)
            return -1;
        found->slots[slot].key = key;
        found->slots[slot].list = list;
    }
    item = PyLong_FromSsize_t(number);
    if (item == NULL)
        return -1;
    status = PyList_Append(list, item);
    if (status == 0 && number && record.time_ms < found->times.items[number - 1])
        status = PyList_Append(found->steps, item);
    Py_DECREF(item);
    if (number == 0 || record.time_ms < found->earliest)
        found->earliest = record.time_ms;
    if (number == 0 || record.time_ms > found->latest)
        found->latest = record.time_ms;
    if (status < 0 || push(&found->times, record.time_ms) < 0 || push(&found->spans, start) < 0)
        return -1;
    return push(&found->spans, stop);
}

/* Go over the text. Returns 1 if it was taken, 0 for a doubt, -1 with an exception set. */
static int go_over(Text text, Text end, Found *found)
{
    Text at = text;
    while ((at = memchr(at, ':', (size_t)(end - at))) != NULL) {
        Record record = {{NULL, 0}, 0};
        Text start, stop;
        if (at[1] != ':' || at[2] != ':') {
            at++;
            continue;
        }
        start = word(at + 3, "MLLOG ");
        if (start == NULL) {
            if (resembles_token(at + 3))
                return 0;
            at++;
            continue;
        }
        start = spaces(start);
        stop = whole_record(start, &record);
        if (stop == NULL)
            return 0;
        at = spaces(stop);
        if (at != end && *at != '\n' && *at != '\r')
            return 0;
        if (note(found, record, start - text, stop - text) < 0)
            return -1;
    }
    return 1;
}

PyDoc_STRVAR(scan_doc, "scan(text: bytes) -> tuple[dict[str, list[int]], bytes, bytes, list[int], int, int] | None\n\n"
                       "The records of a text of which nothing is doubtful: the numbers, from 0, of those of each key,\n"
                       "the keys in the order of first appearance; the time of each; where each begins and ends, both\n"
                       "as native 64-bit numbers; the numbers of those that are earlier than the one before; and the\n"
                       "earliest and the latest time.\n"
                       "None where the text has to be read in another way.");

static PyObject *scan(PyObject *Py_UNUSED(module), PyObject *block)
{
    Found found = {0};
    PyObject *result = NULL, *times, *spans;
    Text text;
    int taken;
    if (!PyBytes_Check(block))
        return PyErr_Format(PyExc_TypeError, "bytes expected, not %.100s", Py_TYPE(block)->tp_name);
    found.places = PyDict_New();
    found.steps = PyList_New(0);
    text = (Text)PyBytes_AS_STRING(block);
    taken = found.places && found.steps ? go_over(text, text + PyBytes_GET_SIZE(block), &found) : -1;
    if (taken == 0)
        result = Py_NewRef(Py_None);
    else if (taken > 0) {
        times = as_bytes(&found.times);
        spans = as_bytes(&found.spans);
        if (times != NULL && spans != NULL)
            result = Py_BuildValue("OOOOLL", found.places, times, spans, found.steps, (long long)found.earliest,
                                   (long long)found.latest);
        Py_XDECREF(times);
        Py_XDECREF(spans);
    }
    Py_XDECREF(found.places);
    Py_XDECREF(found.steps);
    PyMem_Free(found.times.items);
    PyMem_Free(found.spans.items);
    return result;
}

static Py_ssize_t count_spans(PyObject *spans)
{
    return PyBytes_GET_SIZE(spans) / (Py_ssize_t)(2 * sizeof(int64_t));
}

/* Where record number `place`, which there is, begins and ends. Returns -1 with an exception set if not in `block`. */
static int read_span(PyObject *block, PyObject *spans, Py_ssize_t place, int64_t *span)
{
    const size_t size = 2 * sizeof *span;
    memcpy(span, PyBytes_AS_STRING(spans) + (size_t)place * size, size);
    if (span[0] >= 0 && span[0] <= span[1] && span[1] <= PyBytes_GET_SIZE(block))
        return 0;
    PyErr_SetString(PyExc_ValueError, "these are spans of another text");
    return -1;
}

PyDoc_STRVAR(pick_doc, "pick(text: bytes, spans: bytes, places: list[int]) -> bytes\n\n"
                       "The records numbered `places`, a line each; `spans` as `scan` gives them.\n"
                       "Raises IndexError for a place that there is not, ValueError for spans of another text.");

static PyObject *pick(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *block, *where, *places, *result;
    Py_ssize_t total = 0, known, count;
    int64_t *spans;
    char *out;
    if (!PyArg_ParseTuple(args, "SSO!:pick", &block, &where, &PyList_Type, &places))
        return NULL;
    known = count_spans(where);
    count = PyList_GET_SIZE(places);
    spans = PyMem_New(int64_t, 2 * count + 1);
    if (spans == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t *span = spans + 2 * i;
        Py_ssize_t place = PyLong_AsSsize_t(PyList_GET_ITEM(places, i));
        if (place == -1 && PyErr_Occurred())
            goto failed;
        if (place < 0 || place >= known) {
            PyErr_Format(PyExc_IndexError, "there is no record %zd among %zd", place, known);
            goto failed;
        }
        if (read_span(block, where, place, span) < 0)
            goto failed;
        total += span[1] - span[0] + 1;
    }
    result = PyBytes_FromStringAndSize(NULL, total);
    if (result != NULL) {
        out = PyBytes_AS_STRING(result);
        for (const int64_t *span = spans; span < spans + 2 * count; span += 2) {
            memcpy(out, PyBytes_AS_STRING(block) + span[0], (size_t)(span[1] - span[0]));
            out += span[1] - span[0];
            *out++ = '\n';
        }
    }
    PyMem_Free(spans);
    return result;
failed:
    PyMem_Free(spans);
    return NULL;
}

/* The words of a tuple of bytes, ready to be looked for. Returns -1 with an exception set for other things. */
static int read_words(PyObject *given, Words *words)
{
    Py_ssize_t count = PyTuple_GET_SIZE(given);
    memset(words, 0, sizeof *words);
    if (count > MOST_WORDS) {
        PyErr_Format(PyExc_ValueError, "at most %d words expected, not %zd", MOST_WORDS, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *word = PyTuple_GET_ITEM(given, i);
        if (!PyBytes_Check(word)) {
            PyErr_Format(PyExc_TypeError, "words of bytes expected, not %.100s", Py_TYPE(word)->tp_name);
            return -1;
        }
        if (!add_word(words, (Text)PyBytes_AS_STRING(word), PyBytes_GET_SIZE(word))) {
            PyErr_Format(PyExc_ValueError, "%R: a word with an underscore after its first byte expected", word);
            return -1;
        }
    }
    return 0;
}

PyDoc_STRVAR(holding_doc, "holding(text: bytes, spans: bytes, words: tuple[bytes, ...]) -> list[int]\n\n"
                          "The numbers of the records that hold one of the words anywhere in their text; `spans` as\n"
                          "`scan` gives them. At most 16 words, each with an underscore after its first byte.\n"
                          "Raises ValueError for other words and for spans of another text.");

static PyObject *holding(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *block, *where, *given, *result;
    Words words;
    if (!PyArg_ParseTuple(args, "SSO!:holding", &block, &where, &PyTuple_Type, &given) || read_words(given, &words) < 0)
        return NULL;
    result = PyList_New(0);
    for (Py_ssize_t place = 0; result != NULL && place < count_spans(where); place++) {
        int64_t span[2];
        Text text = (Text)PyBytes_AS_STRING(block);
        if (read_span(block, where, place, span) < 0)
            Py_CLEAR(result);
        else if (holds_word(&words, text + span[0], text + span[1])) {
            PyObject *item = PyLong_FromSsize_t(place);
            if (item == NULL || PyList_Append(result, item) < 0)
                Py_CLEAR(result);
            Py_XDECREF(item);
        }
    }
    return result;
}

PyDoc_STRVAR(line_feeds_doc, "line_feeds(text: bytes, start: int, stop: int) -> int\n\n"
                             "How many line feeds text[start:stop] holds.\n"
                             "Raises IndexError for places that the text does not have.");

static PyObject *line_feeds(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *block;
    Py_ssize_t start, stop, count = 0;
    Text at, end;
    if (!PyArg_ParseTuple(args, "Snn:line_feeds", &block, &start, &stop))
        return NULL;
    if (start < 0 || stop < start || stop > PyBytes_GET_SIZE(block))
        return PyErr_Format(PyExc_IndexError, "there is no part %zd to %zd of %zd bytes", start, stop,
                            PyBytes_GET_SIZE(block));
    at = (Text)PyBytes_AS_STRING(block) + start;
    end = at + (stop - start);
    for (; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
        count++;
    return PyLong_FromSsize_t(count);
}

static PyMethodDef methods[] = {{"scan", scan, METH_O, scan_doc},
                                {"pick", pick, METH_VARARGS, pick_doc},
                                {"holding", holding, METH_VARARGS, holding_doc},
                                {"line_feeds", line_feeds, METH_VARARGS, line_feeds_doc},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_scan", .m_doc = "Log text without decoding it.", .m_methods = methods};

PyMODINIT_FUNC PyInit__scan(void)
{
    PyObject *module = PyModule_Create(&definition);
    fill_plain();
    if (module != NULL && PyModule_AddIntConstant(module, "VERSION", VERSION) < 0)
        Py_CLEAR(module);
    return module;
}
