# ---
# jupyter:
#   jupytext:
#     cell_markers: '"""'
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
"""
# What a budget buys.

In each cycle of speculative decoding a draft model proposes a tree of tokens and the target checks all of them in one
call. Four terms are enough:

- **budget**: how many tokens are drafted per cycle. The root, the last token of the text, does not count.
- **reach** of a node: the probability that it is accepted, the product of the rates on its path.
- **tau**: tokens emitted per target call, the accepted ones plus one that the target adds itself.
- **block efficiency**: the expectation of tau. It is the sum of the reach of all nodes, the root's 1 included.
"""

# %%
from heapq import heappop, heappush

import matplotlib.pyplot as plt
import numpy as np

import spectheory as st
from simulate import run

BLUE, ORANGE, GREEN, PURPLE, GREY = "#3a7bd5", "#d9702a", "#27996b", "#9a63d1", "#848d97"
plt.rcParams.update(
    {
        "figure.figsize": (6.4, 3.4),
        "figure.dpi": 110,
        "figure.constrained_layout.use": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": "#e4e7ea",
        "legend.frameon": False,
    }
)

# %% [markdown]
"""
## Rates by rank

The draft orders its guesses for the next token; a guess has rank 0, 1, 2, ... The *rate* of a rank is how often that
guess is the target's token. At most one guess is right, so the rates add up to at most 1.
"""

# %%
acceptance = st.Acceptance.by_rank([0.6, 0.16, 0.08, 0.04, 0.03, 0.02])
rates = acceptance.row(0)

figure, axes = plt.subplots(figsize=(6.4, 2.6))
bars = axes.bar([f"#{rank}" for rank in range(len(rates))] + ["none"], [*rates, 1 - rates.sum()], color=BLUE)
bars[-1].set_color(GREY)
axes.bar_label(bars, fmt="{:.0%}", padding=2)
axes.set(xlabel="rank of the right guess", ylabel="share of tokens", ylim=(0, 0.7))
axes.grid(visible=False, axis="x")
plt.show()

# %% [markdown]
"""
Two guesses, and two more below each of them: six drafted tokens. The reach of each node is a product of rates.
"""

# %%
tree = st.Tree.k_ary(fanout=2, depth=2)
for path, reach in zip(tree.to_paths(), st.reach(tree, acceptance)[1:], strict=True):
    print(f"ranks {path!s:8} reach {reach:.3f}")
print(f"block efficiency 1 + {st.reach(tree, acceptance)[1:].sum():.3f} = {st.block_efficiency(tree, acceptance):.3f}")

# %% [markdown]
"""
## More budget, and its shape

A chain can never give more than 1 / (1 - 0.6) = 2.5 tokens per target call here, however long it is. A full k-ary tree
spends most of its budget on nodes that are hardly ever reached. The best tree takes the nodes of highest reach.
"""

# %%
budgets = np.arange(1, 129)
best = [st.block_efficiency(tree, acceptance) for tree in st.best_trees(acceptance, 128)[1:]]
chain = [st.block_efficiency(st.Tree.chain(int(budget)), acceptance) for budget in budgets]

figure, axes = plt.subplots()
axes.plot(budgets, best, color=BLUE, label="best tree")
axes.plot(budgets, chain, color=ORANGE, linestyle="--", label="chain")
for fanout, depths, marker, colour in ((2, range(1, 7), "o", GREEN), (3, range(1, 5), "s", PURPLE)):
    trees = [st.Tree.k_ary(fanout, depth) for depth in depths]
    tau = [st.block_efficiency(tree, acceptance) for tree in trees]
    axes.plot([tree.budget for tree in trees], tau, marker, color=colour, label=f"full {fanout}-ary tree")
axes.set_xscale("log", base=2)
axes.set_xticks([1, 2, 4, 8, 16, 32, 64, 128], ["1", "2", "4", "8", "16", "32", "64", "128"])
axes.set(xlabel="budget, drafted tokens per cycle", ylabel="block efficiency, tokens per target call")
axes.legend()
plt.show()

# %% [markdown]
"""
## A limit on depth

Each level of the tree is one more call of the draft model, so depth costs time. `yield_table` gives the best block
efficiency for every depth limit and every budget. A large budget gains little without depth.
"""

# %%
shown, limits = [2, 4, 8, 16, 32, 64, 128], [1, 2, 3, 4, 6, 8, 12]
table = st.yield_table(acceptance, 128, max_depth=12)
print("depth  budget" + "".join(f"{budget:7}" for budget in shown))
for limit in limits:
    print(f"{limit:5}        " + "".join(f"{table[limit, budget]:7.2f}" for budget in shown))

# %% [markdown]
"""
## When a chain, or nothing, is the right answer

Let one target call take 1 second, whatever it checks, and one draft call `draft_seconds`. A tree d deep then takes
1 + d * `draft_seconds` and gives its block efficiency; plain decoding gives 1 token in 1 second. `plan` picks the
fastest. (On a real GPU, measure the seconds first; there a larger tree takes the target longer, too.)

Where the budget is small and drafting is almost free, the best nodes are all first guesses: a chain. As drafting gets
slower the tree gets shallower, and in the end it is better not to speculate.
"""

# %%
costs = np.geomspace(0.005, 1, 24)
marks = {"tree": "o", "chain": "D", "off": "x"}


def fastest(cost: float, max_budget: int) -> st.Schedule:
    """The plan for draft calls that take `cost` seconds."""
    return st.plan(acceptance, st.Latency.constant(draft_seconds=cost), max_budget=max_budget)


figure, axes = plt.subplots()
for max_budget, colour in ((3, ORANGE), (8, GREEN), (64, BLUE)):
    plans = [fastest(cost, max_budget) for cost in costs]
    axes.plot(costs, [plan.speedup for plan in plans], color=colour, label=f"budget up to {max_budget}")
    for cost, plan in zip(costs, plans, strict=True):
        axes.plot(cost, plan.speedup, marks[plan.answer], color=colour, markersize=5)
for answer, mark in marks.items():
    axes.plot([], [], mark, color=GREY, markersize=5, label=answer)
axes.set_xscale("log")
axes.set_xticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
axes.set(xlabel="draft_seconds, one draft call (target call = 1)", ylabel="speedup over plain decoding")
axes.legend(ncols=2)
plt.show()

# %%
print(f"{'':21}" + "".join(f"{f'budget up to {max_budget}':29}" for max_budget in (3, 8, 64)))
for cost in (0.01, 0.05, 0.2, 0.5, 1.0):
    plans = [fastest(cost, max_budget) for max_budget in (3, 8, 64)]
    answers = [f"{plan.answer}, budget {plan.tree.budget}, depth {plan.tree.max_depth}" for plan in plans]
    print(f"draft_seconds {cost:4}:  " + "".join(f"{answer:29}" for answer in answers))

# %% [markdown]
"""
## Why taking the best node next is not always right

As long as rates fall with rank, growing the tree by the node of highest reach is exact. Measured rates need not fall.
A guess can be drafted only together with the guesses before it, so a poor guess may come before a good one, and a
search that looks at one node at a time does not see the good one. `best_tree` then uses an exact dynamic program.
"""


# %%
def best_first(rates: list[float], budget: int) -> float:
    """Block efficiency of the tree that takes the node of highest reach next, siblings in order of rank."""
    total, open_nodes = 1.0, [(-rates[0], 0, 1.0)]
    for _ in range(budget):
        negative_reach, rank, parent_reach = heappop(open_nodes)
        total -= negative_reach
        heappush(open_nodes, (negative_reach * rates[0], 0, -negative_reach))
        if rank + 1 < len(rates):
            heappush(open_nodes, (-parent_reach * rates[rank + 1], rank + 1, parent_reach))
    return total


print("budget                      " + "".join(f"{budget:7}" for budget in range(1, 9)))
for rates in ([0.6, 0.3, 0.05], [0.3, 0.05, 0.6]):
    exact = st.yield_table(st.Acceptance.by_rank(rates), 8, max_depth=8)[-1]
    print(f"{rates!s:18} best-first" + "".join(f"{best_first(rates, budget):7.3f}" for budget in range(1, 9)))
    print(f"{'':18} exact     " + "".join(f"{exact[budget]:7.3f}" for budget in range(1, 9)))

# %% [markdown]
"""
## Does it come true?

`simulate.run` draws each cycle at random and does not use the formula. The measured tau comes with a 95% interval;
about one interval in twenty should miss the prediction.
"""

# %%
budgets = [2, 4, 8, 16, 32, 64]
plans = [fastest(0.05, budget) for budget in budgets]
tallies = [run(plan, cycles=20_000, requests=50, seed=seed) for seed, plan in enumerate(plans)]

figure, axes = plt.subplots(figsize=(6.4, 2.8))
for x, (plan, tally) in enumerate(zip(plans, tallies, strict=True)):
    low, high = tally.tau_interval()
    axes.vlines(x, low - plan.tau, high - plan.tau, color=ORANGE, linewidth=2)
    axes.plot(x, tally.tau - plan.tau, "o", color=ORANGE)
    print(
        f"budget {plan.tree.budget:2}: predicted {plan.tau:.3f}, "
        f"measured {tally.tau:.3f}, interval {low:.3f} to {high:.3f}"
    )
axes.axhline(0, color=BLUE)
axes.set_xticks(range(len(budgets)), [str(plan.tree.budget) for plan in plans])
axes.set(xlabel="budget, drafted tokens per cycle", ylabel="measured tau - predicted")
plt.show()

# %% [markdown]
"""
The prediction is only as good as its rates. If the first guess is right less often than planned, the same tree gives
less than predicted.
"""

# %%
world = st.Acceptance.by_rank([0.5, 0.2, 0.1, 0.05, 0.04, 0.03])
low, high = run(plans[-1], world=world).tau_interval()
print(
    f"promised {plans[-1].tau:.3f}, got {low:.3f} to {high:.3f}, "
    f"and theory with the true rates says {st.block_efficiency(plans[-1].tree, world):.3f}"
)
