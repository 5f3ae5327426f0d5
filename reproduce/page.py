# SPDX-License-Identifier: Apache-2.0
"""docs/reproduction.md out of the goals and the lines of what was run. Pure."""

from judge import NOT_REPRODUCED, SHORT, Estimate, agreement

MEANS = {
    "virtual": "placement's engine in virtual time",
    "node": "real daemon and libraries, programs whose kernels only last; simulated device",
    "cluster": "a real Kubernetes, simulated devices",
    "remote": "real worker and libraries over a shaped link, programs whose kernels only last; simulated devices",
}

HEAD = """# The claims of the systems before divvy, run again

Made by `make reproduce` (reproduce/README.md); change that, not this page. **Every figure here is of simulated
devices.** None may be quoted as a result of hardware. Goals and rules of verdict stand in `reproduce/goals.yaml`
and were written before the first run of any experiment; only of K4's workload, which `divvy sim` had before, was a
figure known (2.65 times the throughput of whole devices, at another rate). Some were added later, and some replaced after
a first run that told too little (K3, K4's placements, G8, C's wait, S's warm call, U5's windows, and U2, which is placement
only), each in a commit of its own that says why; of K4, G3, G4, W1, C, D and D2 it was known by then about what would come
out. Figures are judged by today's goals; each section says when it was run, and on what.

A value is the mean of several runs, with a seed for each where there is chance in what is run, and its 95 % interval; a
goal is kept where all of the interval keeps it. Where a figure was published, *holds* is as good as that, if the line says
nothing else; where none was, or the line is a variation of another, the bound is ours. *Better* is a bound beyond it, and
ours as well. *As it must be* stands where only a mistake could miss the bound, and counts for nothing. Neither says
anything of the published machines: a driver and a device that are simulated cost what they were told to. No GPU was at
hand: there are no figures of hardware on this page.

Programs are processes that call the driver as programs do, and their kernels do nothing but last: where one is called a
training, an inference or a stencil, that names how long its kernels and pauses are, and how often it waits.

*Holds under this model* is the most that can be said where how long jobs take, or how much they disturb one another, was
assumed. What was published at a slower pace is also run once at that one, and the page says whether that is within our
interval. A baseline whose own headline did not come out is named so, and no win over it is claimed.
"""

SYSTEMS = """
The systems: KubeShare (HPDC 2020; 2.0: its repository), Gemini (IEEE TCC, 2021), KubeGPU (The Journal of Supercomputing
79(1), 2023), Wang et al. (Computer Science 50(6), 2023, and its prototype), DynamoML (CLOSER 2021), GaiaGPU (ISPA 2018),
ConVGPU (IEEE CLUSTER 2017), Oscar (JPDC, 2020), Satzke et al. (HPDC's workshop HiPS, 2021).
"""

MISSING = """## What was planned and not done

- K1: one service of 20 ms a request; not those of 50 ms.
- K6: KubeShare's own scheduler was not timed.
- G2: kernels beyond 100 ms and gaps between launches.
- G3: quota over time, and foreseen against actual lengths, one by one.
- G8: Gemini's holder that keeps its token; its quota's least, window and rate have no counterpart to be swept.
- U2: time and throughput of as many containers; it is placement only, and U1's set has eight at most.
- W2: Wang's hold-off of 0 to 200 ms and window of 10 to 60 s: divvy has none to be swept.
- Services that shrink to nothing under an autoscaler: D2 keeps one replica; only O begins and ends with none.
- Any of it on a GPU.
"""


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


def estimate_of(row, metric):
    """Empty where that run had no such metric yet."""
    return Estimate(**row["measured"][metric]) if metric in row["measured"] else ""


def goal_table(goal, row):
    out = ["| what was measured | here | holds | better | verdict |", "|---|---|---|---|---|"]
    for metric, rule in goal["goals"].items():
        value = estimate_of(row, metric)
        bound, better = rule.get("holds", ""), rule.get("better", "")
        out.append(f"| {rule['says']} | {value} | {bound} | {better} | {bold(row['verdicts'][metric])} |")
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
    """How one run at the published pace agrees with ours."""
    out = [f"**At the pace that was published** ({goal['compressed']['published']}; one run, {paced['seconds']:.0f} s on {paced['date']}, "
           f"commit {paced['commit']}):", "",
           "| what was measured | at that pace | here | that is |", "|---|---|---|---|"]
    for metric, rule in goal["goals"].items():
        here, value = (estimate_of(of, metric) for of in (row, paced))
        if here and value:
            out.append(f"| {rule['says']} | {value.mean:.4g} | {here} | {agreement(rule['holds'], here, value.mean)} |")
    return out + [""]


def section(name, goal, row, paced, pictures):
    out = [f'<a id="{name.lower()}"></a>', f"## {name}: {goal['title']}", "",
           f"**{goal['of']} claims:** {goal['claim']}", "",
           f"**Condition:** {goal['condition']} *({MEANS[goal['means']]}; {row['seeds']} runs"
           f"{', quick' if row['quick'] else ''})*", ""]
    out += goal_table(goal, row) + ["", f"**Verdict:** {row['verdict']}.", "", row["why"], ""]
    baselines = list(baseline_lines(goal, row))
    if baselines:
        out += ["Baselines, of the same run:", ""] + baselines + [""]
    if "inputs" in goal:
        out += ["Inputs, not measured:", ""] + [f"- {what}: {source}." for what, source in goal["inputs"].items()] + [""]
    out += [f"![{name}]({pictures}/{picture})\n" for picture in row["pictures"]]
    out += [f"<sub>Run on {row['date']}, {row['machine']}, {row['kernel']}, commit {row['commit']}, "
            f"{row['seconds']:.0f} s.</sub>", ""]
    if paced:
        out += paced_table(goal, row, paced) + [f"![{name}]({pictures}/{picture})\n" for picture in paced["pictures"]]
    return out


def page(goals, rows, paced, pictures):
    """paced: the lines of runs at the published pace; pictures: the folder that they are in, as the page sees it."""
    out = [HEAD] + summary(goals, rows) + [SYSTEMS] + [f"All of it together ran for {sum(row['seconds'] for row in rows.values()) / 60:.0f} minutes.\n"]
    for name, goal in goals.items():
        if name in rows:
            out += section(name, goal, rows[name], paced.get(name), pictures)
    out.append(MISSING)
    return "\n".join(out)
