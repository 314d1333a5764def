"""The grammar of the rule sheets: what it admits, what it refuses by name, and that nothing hostile gets through."""

import time

import pytest

from compliance import mlperf_grammar as grammar
from compliance.mlperf_sheets import SheetError

REFUSED = [
    ("[x for x in v['value']]", "ListComp"),
    ("lambda: 1", "Lambda"),
    ("__import__('os')", "__import__"),
    ("open('x')", "open"),
    ("exec('1')", "exec"),
    ("(y := 3)", "NamedExpr"),
    ("v['value'].__class__", "__class__"),
    ("v['value'].remove(1)", "remove"),
    ("s.clear()", "clear"),
    ("v['metadata'].update({'a': 1})", "state s"),
    ("ll.lineno", "lineno"),
    ("math.factorial(5)", "factorial"),
    ("v['value'].format(1)", "format"),
    ("'{0.__class__}'.format(v['value'])", "0.__class__"),
    ("'{:>99999999}'.format(v['value'])", "format field"),
    ("2 ** v['value']", "exponent"),
    ("type('a', (), {})", "type()"),
    ("max(*v['value'])", "Starred"),
    ("f'{v:>{s}}'", "width"),
    ("b'x'", "bytes"),
    ("unknown > 1", "unknown"),
    ("_times(1, 2)", "_times"),
]
REFUSED_BLOCKS = [
    ("import os", "Import"),
    ("from os import path", "import"),
    ("v['value'] = 1", "state s"),
    ("ll.key = 'x'", "key"),
    ("s = {}", "assignment to s"),
    ("len = 3", "assignment to len"),
    ("for x in [1]: s['x'] = x", "For"),
    ("while True: pass", "While"),
    ("def f(): pass", "FunctionDef"),
    ("del s['x']", "Delete"),
    ("s['x'] *= 9", "Mult"),
    ("raise ValueError", "Raise"),
]


class Event:
    """A record as the compiled tests see it."""

    def __init__(self, value, key="k", time_ms=5, **metadata):
        self.value, self.key, self.time_ms, self.metadata = value, key, time_ms, metadata


@pytest.mark.parametrize(("text", "construct"), REFUSED)
def test_grammar_refuses_with_the_construct_named(text, construct):
    with pytest.raises(SheetError, match="in the grammar|state s") as refused:
        grammar.test((text,))
    assert construct in str(refused.value)


@pytest.mark.parametrize(("text", "construct"), REFUSED_BLOCKS)
def test_grammar_refuses_statements(text, construct):
    with pytest.raises(SheetError) as refused:
        grammar.begin(text) if "import" in text else grammar.action(text)
    assert construct in str(refused.value)


@pytest.mark.parametrize(
    ("text", "event", "state", "expected"),
    [
        ("v['value'] >= 0.5 and v['value'] < 1", Event(0.7), {}, True),
        ("0.1 < v['value'] <= 0.2", Event(0.2), {}, True),
        ("'epoch_num' in v['metadata']", Event(1, epoch_num=1), {}, True),
        ("('a' in v['metadata']) | ('b' in v['metadata'])", Event(1), {}, False),
        ("v['metadata'].get('n', 7)", Event(1), {}, 7),
        ("len(v) == 2 and v['value'] in [1, float('inf')]", Event(float("inf")), {}, True),
        ("ll.timestamp - s['t'] < 20*60*1e3", Event(1, time_ms=10), {"t": 4.0}, True),
        ("is_integer(math.log2(v['value'] / 0.0001))", Event(0.0004), {}, True),
        ("sorted(s['x']) == sorted(['b', 'a'])", Event(1), {"x": ["a", "b"]}, True),
        ("v['value'] ** 0.5 if s.get('z') else not v['value']", Event(9), {"z": 1}, 3.0),
    ],
)
def test_grammar_admits(text, event, state, expected):
    assert grammar.test((text,))(event, state) == expected


def test_statements_change_the_state_and_ask_for_sheets():
    state, asked = {"n": 1, "list": []}, []
    block = "s['n'] += v['value']; s['list'].append(v['value'])\n"
    block += "if v['value'] > 1: enqueue_config('{}.yaml'.format(ll.key))"
    grammar.action(block)(Event(2), state, asked.append)
    assert (state, asked) == ({"n": 3, "list": [2]}, ["k.yaml"])


def test_text_that_is_no_python_raises_when_called_not_when_read():
    with pytest.raises(SyntaxError):
        grammar.test(("v['value' >",))(Event(1), {})


@pytest.mark.parametrize(
    ("text", "value", "state"),
    [
        ("v['value'] * 1152 == 1", "x" * 10**6, {}),
        ("v['value'] * s['n'] == 1", [0], {"n": 10**12}),
        ("v['value'] % s['n'] == 0", "%999999999d", {"n": 5}),
    ],
)
def test_hostile_values_cannot_blow_up_a_product(text, value, state):
    started = time.process_time()
    with pytest.raises(MemoryError):
        grammar.test((text,))(Event(value), state)
    assert time.process_time() - started < 0.2
