"""Collection: tasks counted in blocks on many workers, with results that add and survive interruptions."""

from simulate.collecting.block_file import CollectWarning
from simulate.collecting.collector import TaskError, collect, combine
from simulate.collecting.ready_tasks import serving_task, step_task, verifier_task, walk_task, world_task
from simulate.collecting.results import Collected, Estimate, TaskResult
from simulate.collecting.statistics import Statistics
from simulate.collecting.stopping import Stop
from simulate.collecting.task import Block, Figure, Task

__all__ = [
    "Block",
    "CollectWarning",
    "Collected",
    "Estimate",
    "Figure",
    "Statistics",
    "Stop",
    "Task",
    "TaskError",
    "TaskResult",
    "collect",
    "combine",
    "plot",
    "serving_task",
    "step_task",
    "verifier_task",
    "walk_task",
    "world_task",
]


def plot(collected: Collected, figure: str = "", *, along: str = "", by: str = "") -> str:
    """A figure of all tasks with 95% intervals, as an SVG string.

    Args:
        collected: the results.
        figure: name of the figure; default: the first one of each task.
        along: name of a setting for the horizontal axis; default: one row for each task.
        by: name of a setting; each of its values gets a line of its own. It needs `along`.

    Raises:
        InputError: there are no results, or a task lacks the figure or a setting.
    """
    from simulate.collecting.collected_figure import collected_figure

    return collected_figure(collected, figure, along, by)
