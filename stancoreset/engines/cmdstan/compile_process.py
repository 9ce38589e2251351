"""A process in which cmdstanpy compiles a program: ``python compile_process.py ORDER``.

It leads its own process group, which contains everything that it starts (make, the C++ compiler).
When its input ends, because the process that started it has ended, so does the group. It imports
nothing of the package, so that it starts quickly.
"""

import json
import os
import signal
import subprocess
import sys
import threading


def follow_parent() -> None:
    """End the whole group once the other end of the input is closed."""
    while os.read(0, 1):
        pass
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    else:  # Windows
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(os.getpid())], check=False)
    os._exit(1)


def main(order: str) -> int:
    """Compile, and print errors."""
    threading.Thread(target=follow_parent, daemon=True).start()
    import cmdstanpy

    asked = json.loads(order)
    cmdstanpy.utils.get_logger().disabled = True
    try:
        cmdstanpy.set_cmdstan_path(asked["cmdstan"])
        cmdstanpy.CmdStanModel(
            stan_file=asked["stan_file"],
            cpp_options=asked["cpp_options"] or None,
            stanc_options=asked["stanc_options"] or None,
        )
    except Exception as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
