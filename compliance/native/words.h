/* Finds words in a text in one pass. Every word has an underscore, which is rare in other text and which memchr finds
   at many bytes a cycle; the byte before it says whether one of the words can be there. */

#define MOST_WORDS 16

typedef struct {
    Text start;
    Py_ssize_t size, before; /* before: bytes in front of the first underscore, 1 at least */
} Word;

typedef struct {
    Word items[MOST_WORDS];
    Py_ssize_t count;
    unsigned char before[256]; /* whether a word has this byte in front of its first underscore */
} Words;

/* Add a word, for which there is room. Returns whether it is one that can be looked for. */
static int add_word(Words *words, Text start, Py_ssize_t size)
{
    Text underscore = memchr(start, '_', (size_t)size);
    if (underscore == NULL || underscore == start)
        return 0;
    words->items[words->count++] = (Word){start, size, underscore - start};
    words->before[underscore[-1]] = 1;
    return 1;
}

/* Whether one of the words is within at..end. */
static int holds_word(const Words *words, Text at, Text end)
{
    Text underscore, from = at;
    while ((underscore = memchr(from, '_', (size_t)(end - from))) != NULL) {
        from = underscore + 1;
        if (underscore == at || !words->before[underscore[-1]])
            continue;
        for (const Word *word = words->items; word < words->items + words->count; word++)
            if (word->before <= underscore - at && word->size - word->before <= end - underscore &&
                memcmp(word->start, underscore - word->before, (size_t)word->size) == 0)
                return 1;
    }
    return 0;
}
