"""`python -m lab` is the command `lab`."""

from lab.cli.main import run

if __name__ == "__main__":
    run()
