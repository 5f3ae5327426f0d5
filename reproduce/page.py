# SPDX-License-Identifier: Apache-2.0
"""docs/reproduction.md, the page of verdicts, and a page for each experiment, out of the goals and the lines of what was
run. Pure."""

import textwrap

from judge import (
    FIRST_GOALS,
    NO_GOAL,
    NOT_REPRODUCED,
    NOT_RUN,
    SHORT,
    Estimate,
    agreement,
    metric_of,
    own_goals,
    read_goals,
)

WIDTH = 100
MEANS = {
    "virtual": "the placement engine in virtual time, without devices",
    "clock": "the placement engine, timed by the clock, for an invented cluster",
    "node": "real daemon and libraries, programs whose kernels only last; simulated device",
    "cluster": "a real Kubernetes, simulated devices",
    "remote": "real worker and libraries over a shaped link, programs whose kernels only last; simulated devices",
}
SOURCES = ("published", "code", "recalled", "ours")
QUESTION = "our question"
CLAIM_OF = {
    "published": "Claim of {}",
    "code": "Claim, from the code of {}",
    "recalled": "Claim of {}, as we recall it",
    "ours": "Our question, after {}",
}

HEAD = """# Claims of earlier GPU-sharing systems, run again

`make reproduce` writes this page and the pages that it links to. To change them, change
[reproduce/](../reproduce/README.md).

**All figures are of simulated devices.** Nobody may quote them as results of hardware. There was no
GPU: no figure here is from one.

## The two verdicts

Each experiment has a verdict on the other system's claim, and one on our own goals.

- **Claim**: does divvy do on simulated devices what the system claims? Only goals that test a part
  of the claim count.
- **Our goals**: does divvy also keep the bounds that we set? These are goals beyond the claim, such
  as shorter jobs or a comparison with another scheduler. They include a stricter bound on a figure
  that tests the claim.

A value is a mean of several runs with its 95 % interval. A verdict holds only if the whole interval
keeps the bound. The verdict on several bounds is the worst of them.

| verdict | meaning |
|---|---|
| holds | the whole 95 % interval keeps each bound |
| holds under this model | the same, but the figures depend on inputs that we assumed, such as how long jobs run |
| falls short | at least one interval reaches past its bound |
| better | the bound in the column *better* is kept too; an experiment needs one against a baseline or a published bound |
| true by construction | only a mistake could miss the bound: a sanity check that counts for nothing |
| baseline not reproduced | the other system's own headline did not come out here: we claim no win over it |
| not comparable because simulated | a simulated device cannot tell |
| not tested | the experiment tests no part of the claim; its page says why |
| no claim | the system claims nothing that we know of: the question is ours |
| no further goal | each goal tests the claim, and none has a stricter bound |

The column *source* says where the claim comes from. *Published* is from an abstract, slides or a
repository; the papers themselves were not at hand again. *Code* is our reading of the system's
code. *Recalled* is from memory, not looked up again.

## Verdicts
"""

LIMITS = """## Limits of these results

- Neither verdict says anything about the machines in the papers. A simulated driver and a simulated
  device take the time that is configured, here 4 us for a launch. An overhead is divvy's real work
  against that.
- Programs are processes that call the driver as programs do, and their kernels only last. Where a
  page calls a program a training, an inference or a stencil, that stands for the length of its
  kernels and pauses, and for how often the program waits.
- The runs of an experiment are from one session on one machine. Another day, or another machine,
  may differ by more than the interval.
- Values are fractions of one (0.01 is a hundredth), or have the unit that the line names. A value of
  A "against" B is A divided by B: 0.5 is half, 2 is twice as much.
- Some experiments are compressed in time. Each also ran once at the slower pace; its page says
  whether that run is within what one more run of ours would be.
- The goals stand in `reproduce/goals.yaml`. As they were before the first run of any experiment
  they stand in `reproduce/goals-first.yaml`. Of K4's workload alone one figure was known then: 2.65
  times the throughput of whole devices, at another rate. Each page lists the goals that have
  changed; we had seen results when we changed them. Some bounds were set, or loosened, after a
  first run: `git log -p reproduce/goals.yaml` shows each step.
- Each page says when its figures were measured, on which machine and at which commit. Some of these
  commits were merged into others before they came into this history.

## Planned and not done

The page of each experiment lists what it leaves out. For all of them:

- No run on a GPU.
- Gemini itself was not run. Gemini's order of turns stands in divvy's arbiter, with divvy's
  prediction of bursts and divvy's way to take back a turn that idles. That does not reproduce
  Gemini's own figures, and we claim no win over Gemini.
- In O, D2 and all experiments in virtual time divvy also places the whole devices, those that fit
  best. The plan was Kubernetes' own scheduler and a vendor's plugin. For jobs of one device that
  changes nothing in which job has a device.
- G3, U4, C and D2 did not vary their assumed inputs.
- All experiments were to take one hour on two processors. They take two hours there (measured).
  With four or more processors the experiments on a cluster (one hour) run beside the others. The
  others should take 65 minutes on two of four processors, 35 minutes on four of eight. We computed
  these two times from what each took on two processors: no larger machine was at hand. `QUICK=1`
  takes nine minutes on two.
"""

SYSTEMS = """## The systems

| system | source |
|---|---|
| KubeShare | HPDC 2020; 2.0: its repository |
| Gemini | IEEE TCC, 2021 |
| KubeGPU | The Journal of Supercomputing 79(1), 2023 |
| Wang et al. | Computer Science 50(6), 2023, and its prototype |
| DynamoML | CLOSER 2021 |
| GaiaGPU | ISPA 2018 |
| ConVGPU | IEEE CLUSTER 2017 |
| Oscar | JPDC, 2020 |
| Satzke et al. | HiPS, a workshop of HPDC, 2021 |
"""

QUICK = """**These are short runs, once each. They show that the experiments run.** Their texts are those of the full runs.
"""

SIMULATED = "**All figures on this page are of simulated devices.**"


def bold(verdict):
    return f"**{verdict}**" if verdict in (SHORT, NOT_REPRODUCED) else verdict


def wrapped(text, indent=""):
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def item(text):
    return wrapped(f"- {text}", "  ")


def paragraphs(text):
    """The Markdown of a text file, wrapped anew; items of a list stay items."""
    out = []
    for block in text.strip().split("\n\n"):
        for piece in block.split("\n- ") if block.startswith("- ") else [block]:
            is_item = block.startswith("- ")
            words = " ".join(piece.removeprefix("- ").split())
            out += [item(words)] if is_item else [wrapped(words)]
        out.append("")
    return out


def source_of(goal, rule):
    """Where the claim comes from that this goal tests."""
    return rule["bound"] if rule.get("bound", "ours") != "ours" else goal["claim_of"]


def sources(goal):
    """Where the claim comes from, for a cell."""
    found = {goal["claim_of"], *(source_of(goal, rule) for rule in goal["goals"].values() if "claim" in rule)}
    return ", ".join(QUESTION if source == "ours" else source for source in SOURCES if source in found)


def verdict_table(goals, rows, folder):
    out = ["| experiment | system | subject | source | claim | our goals |", "|---|---|---|---|---|---|"]
    for name, goal in goals.items():
        row = rows.get(name)
        verdicts = [bold(row["claim"]), bold(row["ours"])] if row else [NOT_RUN, NOT_RUN]
        link = f"[{name}]({folder}/{name}.md)" if row else name
        out.append(f"| {link} | {goal['of']} | {goal['title']} | {sources(goal)} | {' | '.join(verdicts)} |")
    return out


def short_list(rows, which, folder):
    """Links to the experiments that fall short."""
    links = [f"[{name}]({folder}/{name}.md)" for name, row in rows.items() if row[which] == SHORT]
    return ", ".join(links) or "none"


def verdicts(goals, rows, folder):
    """The page of verdicts. folder: the folder of the experiments' pages, as seen from this page."""
    rows = {name: rows[name] for name in goals if name in rows}
    out = [HEAD]
    if any(row["quick"] for row in rows.values()):
        out.append(QUICK)
    minutes = sum(row["seconds"] for row in rows.values()) / 60
    out += [
        item(f"The claim falls short in: {short_list(rows, 'claim', folder)}."),
        item(f"Our own goals fall short in: {short_list(rows, 'ours', folder)}."),
        "",
        *verdict_table(goals, rows, folder),
        "",
        wrapped(f"The experiments took {minutes:.0f} minutes together, many of them beside one another."),
        "",
        LIMITS,
        SYSTEMS,
    ]
    return "\n".join(out)


def estimate_of(row, name, rule=None):
    """The figure of the goal. It is empty if the run did not measure it yet."""
    metric = metric_of(name, rule or {})
    return Estimate(**row["measured"][metric]) if metric in row["measured"] else ""


def claim_table(goal, row):
    out = ["| part of the claim | measured | value | bound | bound from | verdict |", "|---|---|---|---|---|---|"]
    for metric, rule in goal["goals"].items():
        if "claim" in rule:
            out.append(
                f"| {rule['claim']} | {rule['says']} | {estimate_of(row, metric, rule)} | {rule.get('holds', '')} | "
                f"{rule.get('bound', 'ours')} | {bold(row['of_claim'][metric])} |"
            )
    return out


def own_table(goal, row):
    out = ["| measured | value | goal | better | verdict |", "|---|---|---|---|---|"]
    for metric, rule in own_goals(goal).items():
        out.append(
            f"| {rule['says']}{', stricter' if 'claim' in rule else ''} | {estimate_of(row, metric, rule)} | "
            f"{rule.get('holds', '')} | {rule.get('better', '')} | {bold(row['of_ours'][metric])} |"
        )
    return out


def baseline_lines(goal, row):
    for name, baseline in (goal.get("baselines") or {}).items():
        if "rule" in baseline:
            yield f"`{name}`: {baseline['rule']}."
        elif name in row["baselines_not_reproduced"]:
            yield f"`{name}`: **baseline not reproduced**: {row['baselines_not_reproduced'][name]}."
        else:
            value = estimate_of(row, baseline["metric"])
            yield f"`{name}`: its headline comes out: {baseline['headline']}. Measured: {value}."


def paced_section(name, goal, row, paced):
    """How the one run at the slower pace agrees with ours."""
    out = [
        "## At the slower pace",
        "",
        wrapped(
            f"One run went slower: {goal['compressed']['slower']}. "
            f"That run took {paced['seconds']:.0f} s on {paced['date']}, at commit {paced['commit']}."
        ),
        "",
        "| measured | slower pace | here | comparison |",
        "|---|---|---|---|",
    ]
    for metric, rule in goal["goals"].items():
        here, value = (estimate_of(of, metric, rule) for of in (row, paced))
        if here and value and "holds" in rule:
            out.append(f"| {rule['says']} | {value.mean:.4g} | {here} | {agreement(rule['holds'], here, value.mean)} |")
    return out + ["", *pictures(name, paced)]


def runs(row):
    """The number of runs. It is one if no figure has several values."""
    n = min(row["seeds"], max(value["n"] for value in row["measured"].values())) if row["measured"] else 0
    return "one run" if n == 1 else f"{n} runs"


def bounds(rule):
    """The bounds of a goal in a cell."""
    words = [
        rule["holds"] if "holds" in rule else "not judged",
        *([f"better {rule['better']}"] if "better" in rule else []),
        *(["by construction"] if rule.get("check") else []),
    ]
    return ", ".join(words)


def bounds_in_words(rule):
    return f"{rule['says']}: {bounds(rule)}" if rule else "none"


def set_up(goal):
    """{what: text} of the experiment's set-up, without its goals."""
    inputs = "; ".join(f"{what}: {source}" for what, source in goal.get("inputs", {}).items())
    baselines = "; ".join(
        f"{name}: {of.get('rule') or of['headline']}" for name, of in (goal.get("baselines") or {}).items()
    )
    return {"claim": goal["claim"], "condition": goal["condition"], "inputs": inputs, "baselines": baselines}


def changed_section(name, goal):
    """The goals and the set-up before the first run of any experiment, where today's differ."""
    first = read_goals(FIRST_GOALS).get(name)
    if not first:
        return ["## As first written", "", "The experiment was added after the first runs of others.", ""]
    named, was, now = goal.get("changed", []), first["goals"], goal["goals"]
    rows = [
        f"| {bounds_in_words(was.get(metric))} | {bounds_in_words(now.get(metric))} |"
        for metric in {**was, **now}
        if metric not in was or metric not in now or bounds(was[metric]) != bounds(now[metric]) or metric in named
    ]
    old = [item(f"{what}: {words or 'none'}") for what, words in set_up(first).items() if what in named]
    if not rows and not old:
        return []
    out = [
        "## As first written",
        "",
        wrapped(
            "This was different, or worded otherwise, before the first run of any experiment. "
            "Between then and now some bounds had still other values."
        ),
        "",
    ]
    if rows:
        out += ["| goal as first written | now |", "|---|---|", *rows, ""]
    return out + [*old, *([""] if old else [])]


def pictures(name, row):
    out = []
    for picture in row["pictures"]:
        what = picture.removesuffix(".svg").removeprefix(name).strip("-")
        out += [f"![{name}{', ' + what if what else ''}]({picture})", ""]
    return out


def listed(title, lines):
    lines = list(lines)
    return [title, "", *map(item, lines), ""] if lines else []


def experiment(name, goal, row, paced, page_of_verdicts):
    """The page of one experiment, beside its pictures. paced: its line at the slower pace, or None."""
    is_quick = ", quick" if row["quick"] else ""
    out = [
        f"# {name}: {goal['title']}",
        "",
        wrapped(f"{SIMULATED} [All verdicts, and what they mean]({page_of_verdicts})."),
        "",
        wrapped(f"**{CLAIM_OF[goal['claim_of']].format(goal['of'])}:** {goal['claim']}"),
        "",
        wrapped(f"**Experiment:** {goal['condition']} *({MEANS[goal['means']]}; {runs(row)}{is_quick})*"),
        "",
        f"**Verdict on the claim:** {row['claim']}. **Verdict on our goals:** {row['ours']}.",
        "",
        wrapped(f"**{row['lead']}**"),
        "",
    ]
    if row["of_claim"]:
        out += ["## The claim", "", *claim_table(goal, row), ""]
    if row["of_ours"]:
        out += ["## Our goals", "", *own_table(goal, row), ""]
    if any("claim" in goal["goals"][metric] for metric in row["of_ours"]):
        out += ["*Stricter*: a figure of the claim, with a bound of ours.", ""]
    if row["ours"] == NO_GOAL:
        out += ["Each goal tests the claim: we set no further goal.", ""]
    out += ["## Explanation", "", *paragraphs(row["why"]), "## Pictures", "", *pictures(name, row)]
    out += listed("## Baselines of the same run", baseline_lines(goal, row))
    out += listed("## Assumed inputs", (f"{what}: {source}." for what, source in goal.get("inputs", {}).items()))
    out += paced_section(name, goal, row, paced) if paced else []
    out += listed("## Not done", goal.get("not_run", []))
    out += changed_section(name, goal)
    where = ", ".join(str(row[key]) for key in ("date", "machine", "kernel"))
    out += ["## The run", "", wrapped(f"{where}, commit {row['commit']}, {row['seconds']:.0f} s."), ""]
    return "\n".join(out)
