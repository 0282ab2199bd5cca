"""CUDA graphs: the launches of a stage are recorded once and replayed as one."""

from __future__ import annotations

from collections.abc import Callable

import torch

Stage = Callable[[], None]

#: Runs before a recording: libraries choose kernels and allocate workspaces on first use.
_NUM_WARM_UPS = 2


class GraphRecorder:
    """Records stages that read and write the same tensors every time.

    All graphs share one pool of memory; they never run at the same time.
    """

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, stage: Stage) -> Stage:
        """A callable that replays `stage`.

        Args:
            stage: Takes and returns nothing; all its tensors live as long as the callable.
        """
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_NUM_WARM_UPS):
                stage()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            stage()
        replay: Stage = graph.replay
        return replay
