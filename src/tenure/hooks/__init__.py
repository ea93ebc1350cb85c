"""Hooks: functions of the user that Tenure calls at named moments; how they are registered and called."""
