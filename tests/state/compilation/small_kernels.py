"""Two small kernels of which no cache knows anything, for tests of tiers and of the cache."""

from types import ModuleType

import numpy as np

from kstreams_replay.state.compilation.kernel_compilation import Kernel

SMALL = """
from kstreams_replay.state.compilation.kernel_compilation import inner_kernel, kernel

@inner_kernel
def twice(number):
    return 2 * number

@kernel
def double(numbers, by):
    for i in range(numbers.shape[0]):
        numbers[i] = twice(numbers[i]) + by
"""


def call(module: ModuleType) -> list[int]:
    numbers = np.arange(3)
    module.double(numbers, 1)
    found: list[int] = numbers.tolist()
    return found


def is_compiled(kernel: Kernel) -> bool:
    return bool(kernel.dispatcher.nopython_signatures)
