"""Clients that are killed: a process imports sgnb once and forks a child per client, because each
import takes seconds. `python killed_kernels.py HOST COUNT` prints a line per killed child."""

from __future__ import annotations

import os
import signal
import sys
import time


def be_a_kernel(host: str, ready: int) -> None:
    """Run a long generation, and go on after an interrupt as a notebook does. ready: pipe."""
    from sgnb.backends.remote.lifetime import attach

    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = attach(host)
    while True:
        try:
            stream = engine.generate("A long story", max_tokens=3000, ignore_eos=True, stream=True)
            next(stream)
            os.write(ready, b".")
            for _ in stream:
                pass
        except KeyboardInterrupt:
            engine.generate("after the interrupt", max_tokens=1)
            os.write(ready, b"i")


def main(host: str, count: int) -> None:
    from sgnb.backends.remote.lifetime import attach

    attach(host).close()  # imports all modules before the forks
    for number in range(count):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            try:
                be_a_kernel(host, write)
            finally:
                os._exit(1)
        os.close(write)
        try:
            assert os.read(read, 1) == b".", "the client did not start"
            if number % 3 == 1:  # an interrupt; the kernel goes on, then it is restarted
                os.kill(child, signal.SIGINT)
                assert os.read(read, 1) == b"i", "the client did not go on"
            time.sleep(0.01 * (number % 4))
        finally:
            os.kill(child, signal.SIGKILL if number % 2 else signal.SIGTERM)
            os.waitpid(child, 0)
            os.close(read)
        print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
