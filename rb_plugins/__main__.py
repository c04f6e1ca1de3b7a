"""`python -m rb_plugins` is `rb-tune`."""

from rb_plugins.cli import main

if __name__ == "__main__":
    main()
