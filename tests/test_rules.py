"""Every rule fires on the logs under its ``Fails::`` and stays silent on those under its ``Passes::``."""

from pathlib import Path, PurePath

import pytest

from compliance import example_submissions, examples, mlperf
from compliance.official import breaches, refusal
from compliance.positions import Positions
from compliance.result_set import ResultSet
from compliance.rule import Finding, Rule, all_rules, run_rules
from compliance.run import MODEL_KEYS, Run, split_runs

RULES = all_rules()


def judge_by_round(run: Run, text: str) -> None:
    """An example that begins with a ruleset is judged by that MLPerf round."""
    if text.startswith("ruleset "):
        ruleset = mlperf.ruleset(text.split()[1])
        official = mlperf.judge(run.log, ruleset)
        run.official_messages = breaches(run.log, official, ruleset)
        run.official_warnings = official.warnings
        run.official_refusal = refusal(official, run.official_messages)
        run.official_crash = (str(official.crash), official.crash_line) if official.valid is None else None


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where an example submission is written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judge(rule: Rule, text: str, folder: Path) -> list[Finding]:
    """The rule's findings on an example."""
    if rule.scope == "submission":
        return run_rules([rule], example_submissions.submission(text, folder), "submission", suite=True)
    facts = examples.facts_of(text)
    logs = examples.logs(text)
    if rule.scope == "run":
        found = []
        for log in logs.values():
            parts = split_runs(log)
            models = [Run(log, part, facts) for part in parts]
            models[0].parts = parts
            for run in models:
                judge_by_round(run, text)
                run.profile_names = examples.EXAMPLE_FACTS
                found += run_rules([rule], run, log.path, suite=True)
        return found
    runs = [Run(log, log.events, facts) for log in logs.values()]
    model = ResultSet("example/results/system/example", runs, [PurePath(name).name for name in logs], facts)
    return run_rules([rule], model, "set", suite=True)


def cases(heading):
    return [
        pytest.param(rule, text, id=f"{rule.id}-{number}")
        for rule in RULES
        for number, text in enumerate(rule.examples(heading))
    ]


@pytest.mark.parametrize(("rule", "text"), cases("Fails"))
def test_fails(rule, text, folder):
    found = judge(rule, text, folder)
    assert {finding.rule for finding in found} == {rule.id}
    assert all(finding.severity == rule.severity and finding.message for finding in found)


@pytest.mark.parametrize(("rule", "text"), cases("Passes"))
def test_passes(rule, text, folder):
    assert judge(rule, text, folder) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_page(rule):
    """A rule says what has to be so, in a sentence, and has both kinds of example."""
    assert rule.title.endswith("."), rule.id
    assert rule.examples("Fails"), rule.id
    assert rule.examples("Passes"), rule.id
    assert rule.source


def test_crashed_rule_is_a_finding():
    def crashing_rule(run: Run):
        """Crashes."""
        yield Finding("first")
        raise KeyError("x")

    broken = Rule("Z999", "crashing_rule", "error", "rules.md", False, "run", crashing_rule)
    (log,) = examples.logs("seed 1").values()
    found = run_rules([broken, *RULES], Run(log, log.events, None), "x", suite=True)
    assert [f.rule for f in found][:2] == ["Z999", "X001"]
    assert len(found) > 2


def test_rules_ask_only_for_keys_that_are_kept_of_a_large_log():
    """Of a log too large to be held whole, only MODEL_KEYS and the benchmark's hyperparameters are there."""
    asked = set()

    class Watched(Positions):
        def __init__(self, events):
            super().__init__(events)
            of = self.of
            self.of = lambda key: asked.add(key) or of(key)

        def of_all(self, keys):
            asked.update(keys)
            return super().of_all(keys)

    for rule in RULES:
        for text in rule.examples("Fails") + rule.examples("Passes"):
            facts = examples.facts_of(text)
            logs = examples.logs(text).values()
            for log in logs:
                log.positions = Watched(log.events)
            runs = [Run(log, log.events, facts) for log in logs]
            for run in runs:
                run.profile_names = examples.EXAMPLE_FACTS
            models = runs if rule.scope == "run" else [ResultSet("x", runs, ["a"] * len(runs), facts)]
            for model in models:
                run_rules([rule], model, "x", suite=True)
    assert asked - MODEL_KEYS <= {"opt_name", "opt_base_learning_rate"}
    assert {"run_start", "eval_accuracy", "seed", "opt_name"} <= asked
