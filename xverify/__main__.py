"""python -m xverify: the command line."""

from xverify.cli import main

if __name__ == "__main__":
    main()
