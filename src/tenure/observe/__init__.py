"""What happens, told to those who want to know: `observed.py` sees it, `listeners.py` calls functions, `watching.py` tells other processes."""
