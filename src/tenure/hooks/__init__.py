"""Functions of the user that Tenure calls at named moments: how they are registered and how they are called."""
