"""`python -m gpuscope`."""

from gpuscope.cli.app import main

if __name__ == "__main__":
    main()
