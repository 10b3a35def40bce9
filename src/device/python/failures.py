"""Kernels on a GPU that may fail: where they tell so, and where the host looks."""

import torch

from .program import DEVICE

# @piece failures
# ---- Kernels that may fail tell so in memory of the device, which the host looks at when it waits anyway ----

FAILURE_WORDS = {}


def new_failures(count, device):
    """For each of `count` calls a status of four words (whether any has failed; where to tell the host, and all
    statuses and how many there are), then for each the word that tells."""
    if (count, device) not in FAILURE_WORDS:
        places = [word for k in range(count) for word in (0, 32 * count + 8 * k, 0, count)] + [0] * count
        FAILURE_WORDS[count, device] = [
            torch.tensor(words, device=device) for words in (places, [0, 1, 1, 0] * count + [0] * count)
        ]
    words = torch.empty(5 * count, dtype=torch.int64, device=device)
    places, addresses = FAILURE_WORDS[count, device]
    return torch.add(places, addresses, alpha=words.data_ptr(), out=words)


def status_of(failures, site):
    return failures.data_ptr() + 32 * site


def check_failures(failures, messages):
    for message, told in zip(messages, failures[4 * len(messages) :].tolist()):
        if told:
            raise RuntimeError(message)


# @piece failures_of_a_call
class Failures:
    """Those of one call of the program. A kernel behind one that has failed leaves at once where it has a status."""

    def __init__(self, count):
        self.words, self.messages = new_failures(count, DEVICE), [""] * count
        self.any = status_of(self.words, 0)

    def __call__(self, site, message):
        self.messages[site] = message
        return status_of(self.words, site)

    def check(self):
        check_failures(self.words, self.messages)
