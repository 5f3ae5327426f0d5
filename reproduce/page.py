# SPDX-License-Identifier: Apache-2.0
"""docs/reproduction.md out of the goals and the lines of what was run. Pure."""

from judge import FIRST_GOALS, NOT_REPRODUCED, SHORT, Estimate, agreement, metric_of, read_goals

MEANS = {
    "virtual": "placement's engine in virtual time",
    "clock": "placement's engine, by the clock, for a cluster that is made up",
    "node": "real daemon and libraries, programs whose kernels only last; simulated device",
    "cluster": "a real Kubernetes, simulated devices",
    "remote": "real worker and libraries over a shaped link, programs whose kernels only last; simulated devices",
}

HEAD = """# The claims of the systems before divvy, run again

Made by `make reproduce` (reproduce/README.md); change that, not this page. **Every figure here is of simulated
devices.** None may be quoted as a result of hardware. Goals and rules of verdict stand in `reproduce/goals.yaml`. As
they were written before the first run of any experiment they stand in `reproduce/goals-first.yaml` (only of K4's workload a figure
was known, 2.65 times the throughput of whole devices, at another rate). What is another goal today than it was then is listed
[at the end](#changed): when those were written we had already seen results. Figures are judged by today's goals; each section
says when it was run, and on what. Some commits that sections name were put together with others before they came into this history.

A value is the mean of several runs, with a seed for each where there is chance in what is run, and its 95 % interval; a
goal is kept where all of the interval keeps it. Runs are of one session on one machine: another day, or another machine, may
differ by more than the interval. Values are parts of one (0.01 is a hundredth) or the unit that the line names.

Of each claim the page says whether the system claims it, whether its code shows it, whether we only recall it, or whether it is our
question; of each bound the same, in a column. The papers themselves were not at hand again: what is *published* is from their
abstracts, slides and repositories. *Better* is a bound of ours beyond the first one; an experiment is *better* only
where it beats what was published, or a baseline that ran beside it. *As it must be* is a sanity check, true by construction unless there is a
mistake, and counts for nothing. Neither *holds* nor *better* says anything about the machines in the papers: a driver and a device
that are simulated cost what they were told to, here 4 us for a launch, and an overhead is divvy's real work against that. No
GPU was at hand: there are no figures of hardware on this page.

Programs are processes that call the driver as programs do, and their kernels do nothing but last: where one is called a
training, an inference or a stencil, that names how long its kernels and pauses are, and how often it waits.

*Holds under this model* is the most that can be said where how long jobs take, how they work and pause, or how much they
disturb one another, was assumed. What is compressed in time is also run once at the slower pace, and the page says whether that one run is
within what one more of ours would be. A baseline whose own headline did not come out is named so, and no win over it is claimed.
"""

QUICK = """**These are short runs, once each: they show that the experiments run.** Sentences are those of the full runs.
"""

SYSTEMS = """
The systems: KubeShare (HPDC 2020; 2.0: its repository), Gemini (IEEE TCC, 2021), KubeGPU (The Journal of Supercomputing
79(1), 2023), Wang et al. (Computer Science 50(6), 2023, and its prototype), DynamoML (CLOSER 2021), GaiaGPU (ISPA 2018),
ConVGPU (IEEE CLUSTER 2017), Oscar (JPDC, 2020), Satzke et al. (HPDC's workshop HiPS, 2021).
"""

MISSING = """## What was planned and not done

- All of it in an hour on two processors: there it takes two hours (measured). With four or more what needs a cluster (an hour) runs
  beside the rest (65 minutes on two of four processors, 35 on four of eight): that is reckoned from what each took on two; no machine
  with more was at hand. `QUICK=1` takes nine minutes on two.
- D2: the slower pace was run once; less was lost and more was saved there, by no more than one run of ours may differ. D2's times,
  which are not judged, are not compared.
- Gemini itself: its order of turns stands in divvy's arbiter, with divvy's foresight of bursts and its way of taking back a turn that
  idles. Its own figures are not reproduced by that, and no win over Gemini is claimed.
- K3: quotas from 20 to 300 ms: divvy's turns are 29 ms and, of who swaps, 2 s, and alone neither ever ends.
- K4: utilisation over time; it is drawn against the rate.
- K5: a device plugin that takes its time to give a device away.
- K6: KubeShare's own scheduler was not timed, nor more and more shares on the same nodes, nor 10,000 of them.
- K7: the preference where there are devices to choose from.
- K9: the trace itself, which is not part of this, and the trainings of its gangs.
- G1: a loop of GEMM; programs do not compute.
- G2: kernels shorter than 20 us, and gaps of other lengths than the kernel's.
- G3: quota over time, the longest against the 90th percentile, the recurrence of its quota, and foreseen against actual lengths, one by one.
- G4: groups of three where late work waits.
- Each cell of G6's and G8's grids was run once, but for G8's pauses of 60 ms. That shares trade latency against training, G6's question, is drawn and not judged.
- G8: Gemini's holder that keeps its token; its quota's least, window and rate have no counterpart to be swept.
- U2: time and throughput of as many containers; it is placement only, and U1's set has eight at most.
- U3: how many calls are forwarded.
- U3, D, O: latencies, trainings and files halved and doubled are drawn and not judged. G3, U4, C, D2: their inputs were not varied.
- U5: KubeGPU's own rule for the token, and its traces of what was asked for and what was got.
- W1: with the memory of the prototype's trainings, and on a Kubernetes.
- C: ConVGPU's orders are reckoned, not run.
- O, D2, and all that is placed in virtual time: whole devices are given by divvy too, the ones that fit best, not by Kubernetes'
  own scheduler and a vendor's plugin; for jobs of one device that makes no difference to who has one.
- W2: Wang's hold-off of 0 to 200 ms and window of 10 to 60 s: divvy has none to be swept.
- Services that shrink to nothing under an autoscaler: D2 keeps one replica; only O begins and ends with none.
- Any of it on a GPU.
"""

CHANGED = """<a id="changed"></a>
## Goals that are not as they were first written

As written before any run, and as they are now; some are only worded otherwise. Bounds of the right column are today's. In between
some were others still, and some bounds were set, or loosened, after a first run: `git log -p reproduce/goals.yaml` has each step.
"""


CHANGED_SET_UPS = """What is run, where it is worded otherwise today, or is another:
"""

CLAIM_OF = {"published": "{} claims", "code": "From {}'s code", "recalled": "{}, as we recall it", "ours": "Our question, after {}"}


def bold(verdict):
    return f"**{verdict}**" if verdict in (SHORT, NOT_REPRODUCED) else verdict


def summary(goals, rows):
    out = ["| experiment | of | what | verdict |", "|---|---|---|---|"]
    for name, goal in goals.items():
        row = rows.get(name)
        verdict = bold(row["verdict"]) if row else "not run yet"
        link = f"[{name}](#{name.lower()})" if row else name
        out.append(f"| {link} | {goal['of']} | {goal['title']} | {verdict} |")
    return out


def estimate_of(row, name, rule=None):
    """Empty where that run had no such metric yet."""
    metric = metric_of(name, rule or {})
    return Estimate(**row["measured"][metric]) if metric in row["measured"] else ""


def goal_table(goal, row):
    out = ["| what was measured | here | holds | better | bound | verdict |", "|---|---|---|---|---|---|"]
    for metric, rule in goal["goals"].items():
        value = estimate_of(row, metric, rule)
        bound, better, whose = rule.get("holds", ""), rule.get("better", ""), rule.get("bound", "ours") if "holds" in rule else ""
        out.append(f"| {rule['says']} | {value} | {bound} | {better} | {whose} | {bold(row['verdicts'][metric])} |")
    return out


def baseline_lines(goal, row):
    for name, baseline in (goal.get("baselines") or {}).items():
        if "rule" in baseline:
            yield f"- `{name}`: {baseline['rule']}."
        elif name in row["baselines_not_reproduced"]:
            yield f"- `{name}`: **baseline not reproduced**: {row['baselines_not_reproduced'][name]}."
        else:
            value = estimate_of(row, baseline["metric"])
            yield f"- `{name}`: its headline, {baseline['headline']}, comes out: {value}."


def paced_table(goal, row, paced):
    """How one run at the slower pace agrees with ours."""
    out = [f"**At the slower pace** ({goal['compressed']['slower']}; one run, {paced['seconds']:.0f} s on {paced['date']}, "
           f"commit {paced['commit']}):", "",
           "| what was measured | at that pace | here | which |", "|---|---|---|---|"]
    for metric, rule in goal["goals"].items():
        here, value = (estimate_of(of, metric, rule) for of in (row, paced))
        if here and value and "holds" in rule:
            out.append(f"| {rule['says']} | {value.mean:.4g} | {here} | {agreement(rule['holds'], here, value.mean)} |")
    return out + [""]


def runs(row):
    """How often it was run: once, where no figure is of several."""
    n = min(row["seeds"], max(value["n"] for value in row["measured"].values())) if row["measured"] else 0
    return "one run" if n == 1 else f"{n} runs"


def bounds(rule):
    """A goal in a cell."""
    if not rule:
        return ""
    words = [rule["holds"] if "holds" in rule else "not judged", *([f"better {rule['better']}"] if "better" in rule else []),
             *(["as it must be"] if rule.get("check") else [])]
    return f"{rule['says']}: {', '.join(words)}"


def set_up(goal):
    """What it is run with, beside its goals."""
    inputs = "; ".join(f"{what}: {source}" for what, source in goal.get("inputs", {}).items())
    baselines = "; ".join(f"{name}: {of.get('rule') or of['headline']}" for name, of in (goal.get("baselines") or {}).items())
    return [("claim", goal["claim"]), ("condition", goal["condition"]), ("inputs", inputs), ("baselines", baselines)]


def changed_set_ups(goals):
    first = read_goals(FIRST_GOALS)
    out = ["| experiment | as first written | now |", "|---|---|---|"]
    for name, goal in goals.items():
        if name in first:
            out += [f"| {name}, {what} | {was} | {now} |" for (what, was), (_, now) in zip(set_up(first[name]), set_up(goal)) if was != now]
    return out


def changed(goals):
    """What the goals were before the first run, where they are others."""
    first = read_goals(FIRST_GOALS)
    out = ["| experiment | as first written | now |", "|---|---|---|"]
    for name, goal in goals.items():
        was, now = first.get(name, {}).get("goals", {}), goal["goals"]
        out += [f"| {name} | {bounds(was.get(metric))} | {bounds(now.get(metric))} |" for metric in {**was, **now}
                if bounds(was.get(metric)) != bounds(now.get(metric))]
    return out


def picture_of(name, pictures, picture):
    what = picture.removesuffix(".svg").removeprefix(name).strip("-")
    return f"![{name}{', ' + what if what else ''}]({pictures}/{picture})\n"


def section(name, goal, row, paced, pictures):
    out = [f'<a id="{name.lower()}"></a>', f"## {name}: {goal['title']}", "",
           f"**{CLAIM_OF[goal['claim_of']].format(goal['of'])}:** {goal['claim']}", "",
           f"**Condition:** {goal['condition']} *({MEANS[goal['means']]}; {runs(row)}"
           f"{', quick' if row['quick'] else ''})*", ""]
    out += goal_table(goal, row) + ["", f"**Verdict:** {row['verdict']}.", "", f"**{row['lead']}**", "", row["why"], ""]
    baselines = list(baseline_lines(goal, row))
    if baselines:
        out += ["Baselines, of the same run:", ""] + baselines + [""]
    if "inputs" in goal:
        out += ["Inputs, not measured:", ""] + [f"- {what}: {source}." for what, source in goal["inputs"].items()] + [""]
    out += [picture_of(name, pictures, picture) for picture in row["pictures"]]
    out += [f"<sub>Run on {row['date']}, {row['machine']}, {row['kernel']}, commit {row['commit']}, "
            f"{row['seconds']:.0f} s.</sub>", ""]
    if paced:
        out += paced_table(goal, row, paced) + [picture_of(name, pictures, picture) for picture in paced["pictures"]]
    return out


def page(goals, rows, paced, pictures):
    """paced: the lines of runs at the slower pace; pictures: the folder that they are in, as the page sees it."""
    out = [HEAD]
    if any(row["quick"] for row in rows.values()):
        out.append(QUICK)
    minutes = sum(row["seconds"] for row in rows.values()) / 60
    out += [*summary(goals, rows), SYSTEMS, f"The experiments took {minutes:.0f} minutes together, many of them beside one another.\n"]
    for name, goal in goals.items():
        if name in rows:
            out += section(name, goal, rows[name], paced.get(name), pictures)
    out += [MISSING, CHANGED, *changed(goals), "", CHANGED_SET_UPS, *changed_set_ups(goals), ""]
    return "\n".join(out)
