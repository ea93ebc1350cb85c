"""Calls the user's functions at named moments: their registration, and how each kind is called."""
