/* The grammar of one record: JSON of which nothing is doubtful, as scan.c's first lines say.

   Every function takes the place where something begins and returns where it ends, or NULL for any doubt. The text ends
   with a NUL byte, which no function steps over; so none reads beyond the end. */

#include <stdint.h>
#include <string.h>

#define MOST_DEPTH 8    /* of objects and arrays within a record */
#define MOST_MEMBERS 32 /* of an object */
#define MOST_DIGITS 18  /* of a number before its point */

typedef const unsigned char *Text;

typedef struct {
    Text start;
    Py_ssize_t size;
} Span;

typedef struct {
    Span key;
    int64_t time_ms;
} Record;

/* Bytes that stand for themselves in a JSON string and need no second look. */
static unsigned char plain[256];

static void fill_plain(void)
{
    for (int byte = 0x20; byte < 0x7f; byte++)
        plain[byte] = byte != '"' && byte != '\\' && byte != ':';
}

static Text spaces(Text at)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

/* A string after its opening quote. `escaped`, if given, becomes 1 where it holds a backslash. */
static Text string(Text at, int *escaped)
{
    for (;;) {
        while (plain[*at])
            at++;
        if (*at == '"')
            return at + 1;
        if (*at == ':') {
            if (at[1] == ':' && at[2] == ':')
                return NULL; /* a token may begin here */
            at++;
        } else if (*at == '\\' && at[1] != 0 && strchr("\"\\/bfnrt", at[1])) {
            if (escaped)
                *escaped = 1;
            at += 2;
        } else
            return NULL;
    }
}

static Text digits(Text at)
{
    while (*at >= '0' && *at <= '9')
        at++;
    return at;
}

static Text number(Text at)
{
    Text start, end;
    if (*at == '-')
        at++;
    start = at;
    end = digits(at);
    if (end == start || end - start > MOST_DIGITS || (*start == '0' && end - start > 1))
        return NULL;
    if (*end == '.') {
        start = end + 1;
        end = digits(start);
        if (end == start)
            return NULL;
    }
    if (*end == 'e' || *end == 'E') {
        start = end + 1;
        if (*start == '+' || *start == '-')
            start++;
        end = digits(start);
        if (end == start || end - start > 2)
            return NULL;
    }
    return end;
}

static Text word(Text at, const char *text)
{
    size_t size = strlen(text);
    return strncmp((const char *)at, text, size) == 0 ? at + size : NULL;
}

static Text object(Text at, int depth);
static Text array(Text at, int depth);

static Text value(Text at, int depth)
{
    switch (*at) {
    case '"': return string(at + 1, NULL);
    case '{': return depth < MOST_DEPTH ? object(at + 1, depth + 1) : NULL;
    case '[': return depth < MOST_DEPTH ? array(at + 1, depth + 1) : NULL;
    case 'n': return word(at, "null");
    case 't': return word(at, "true");
    case 'f': return word(at, "false");
    default: return number(at);
    }
}

/* A string without backslashes; `content` becomes the text between its quotes. */
static Text text(Text at, Span *content)
{
    int escaped = 0;
    if (*at != '"')
        return NULL;
    content->start = at + 1;
    at = string(at + 1, &escaped);
    if (at == NULL || escaped)
        return NULL;
    content->size = at - 1 - content->start;
    return at;
}

/* A member's name with the colon after it and the space before its value. */
static Text member(Text at, Span *name)
{
    at = text(at, name);
    if (at == NULL)
        return NULL;
    at = spaces(at);
    return *at == ':' ? spaces(at + 1) : NULL;
}

static int same(Span a, Span b)
{
    return a.size == b.size && memcmp(a.start, b.start, (size_t)a.size) == 0;
}

/* What follows an item of an object or array: `close`, and then `last` becomes 1, or a comma and the next item. */
static Text after_item(Text at, char close, int *last)
{
    at = spaces(at);
    *last = *at == close;
    if (*last)
        return at + 1;
    return *at == ',' ? spaces(at + 1) : NULL;
}

/* An object after its opening brace. */
static Text object(Text at, int depth)
{
    Span names[MOST_MEMBERS];
    int count = 0, last;
    at = spaces(at);
    if (*at == '}')
        return at + 1;
    for (;;) {
        if (count == MOST_MEMBERS)
            return NULL;
        at = member(at, &names[count]);
        if (at == NULL)
            return NULL;
        for (int before = 0; before < count; before++)
            if (same(names[before], names[count]))
                return NULL;
        count++;
        at = value(at, depth);
        if (at == NULL)
            return NULL;
        at = after_item(at, '}', &last);
        if (at == NULL || last)
            return at;
    }
}

/* An array after its opening bracket. */
static Text array(Text at, int depth)
{
    int last;
    at = spaces(at);
    if (*at == ']')
        return at + 1;
    for (;;) {
        at = value(at, depth);
        if (at == NULL)
            return NULL;
        at = after_item(at, ']', &last);
        if (at == NULL || last)
            return at;
    }
}

/* A time: an integer that is not negative. */
static Text time_in_ms(Text at, int64_t *time_ms)
{
    Text end = digits(at);
    int64_t sum = 0;
    if (end == at || end - at > MOST_DIGITS || (*at == '0' && end - at > 1) || *end == '.' || *end == 'e' || *end == 'E')
        return NULL;
    while (at < end)
        sum = 10 * sum + (*at++ - '0');
    *time_ms = sum;
    return end;
}

/* The members of a record; bits say which were there. */
enum { KEY = 1, VALUE = 2, TIME_MS = 4, METADATA = 8, NAMESPACE = 16, EVENT_TYPE = 32, ALL = 63 };

static int which(Span name)
{
    static const struct {
        const char *text;
        int bit;
    } known[] = {{"key", KEY},           {"value", VALUE},         {"time_ms", TIME_MS},
                 {"metadata", METADATA}, {"namespace", NAMESPACE}, {"event_type", EVENT_TYPE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].text) == (size_t)name.size && memcmp(known[i].text, name.start, (size_t)name.size) == 0)
            return known[i].bit;
    return 0;
}

/* A whole record from its opening brace on. */
static Text whole_record(Text at, Record *out)
{
    int seen = 0, last;
    if (*at != '{')
        return NULL;
    at = spaces(at + 1);
    for (;;) {
        Span name, ignored;
        int bit;
        at = member(at, &name);
        if (at == NULL)
            return NULL;
        bit = which(name);
        if (bit == 0 || seen & bit)
            return NULL;
        seen |= bit;
        if (bit == KEY)
            at = text(at, &out->key);
        else if (bit == EVENT_TYPE)
            at = text(at, &ignored);
        else if (bit == TIME_MS)
            at = time_in_ms(at, &out->time_ms);
        else if (bit == METADATA)
            at = *at == '{' ? value(at, 0) : NULL;
        else
            at = value(at, 0);
        if (at == NULL)
            return NULL;
        at = after_item(at, '}', &last);
        if (at == NULL || last)
            return seen == ALL ? at : NULL;
    }
}

/* Whether something like a token, in the wrong case or with white space in it, follows three colons. */
static int resembles_token(Text at)
{
    static const char letters[] = "mllog";
    at = spaces(at);
    for (int i = 0; i < 5; i++)
        if ((at[i] | 0x20) != letters[i])
            return 0;
    return 1;
}

